"""The real tracer against a daemon of the test's own: what goes out on the wire."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

CANARY = "canary-81d2f0"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
PROGRAM = f"""
from functions import telemetry

class Context:
    aws_request_id = "1"

@telemetry.function("direct")
def handler(event, context):
    if event["fail"]:
        raise ValueError("{CANARY}")
    return {{"body": "{CANARY}"}}

handler({{"fail": False, "x": "{CANARY}"}}, Context())
try:
    handler({{"fail": True}}, Context())
except ValueError:
    pass
"""


def subsegments(packets: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(packet.partition(b"\n")[2]) for packet in packets]


def test_a_trace_has_the_service_and_the_type_of_an_exception_and_nothing_else_of_a_call() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(20)
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "LAMBDA_TASK_ROOT": "/var/task",
            "_X_AMZN_TRACE_ID": TRACE,
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "AWS_DEFAULT_REGION": "eu-central-1",
        }
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr[-1000:]
        packets = [daemon.recv(65_536) for _ in range(2)]
    assert CANARY.encode() not in b"".join(packets)
    assert CANARY not in ran.stdout + ran.stderr
    good, bad = subsegments(packets)
    assert good["name"] == bad["name"] == "## direct"
    assert good["trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert good["annotations"] == {"Service": "direct"}
    assert bad["annotations"] == {"Service": "direct", "Error": "ValueError"}
    assert (good.get("fault", False), bad["fault"]) == (False, True)
    for one in (good, bad):
        assert "cause" not in one
        assert not one.get("metadata")
