"""The emulator of the suites: seen by this machine alone, and gone when its user is."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.ministack import ministack

LISTENING = "0A"


def _listening(port: int) -> set[str]:
    """The addresses at which somebody listens on a port, as the kernel writes them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == LISTENING and int(address.rpartition(":")[2], 16) == port:
                found.add(address.rpartition(":")[0])
    return found


def test_it_listens_on_loopback_alone_and_ends_with_its_user() -> None:
    with ministack() as aws:
        port = urlsplit(aws.endpoint).port
        assert port is not None
        assert _listening(port) == {"0100007F"}
        assert (aws.table("tab"), aws.table("tab"), aws.bucket("b-1"), aws.bucket("b-1")) == (
            "tab",
            "tab",
            "b-1",
            "b-1",
        )
    assert _listening(port) == set()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)
