"""`POST /v1/exec` with real programs: the answers of exec.md A7, whole, for each way in which a program can end.

The ids, the time and the digest of nothing else vary; everything else is written down here from the contract.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.room import close_room, open_room
from sandbox_image.locate import build_jail
from shared.limits import KIB, MIB
from shared.settings import Settings
from tests.wire.service import Service, expect_eventually, serving

ID = re.compile(r"[A-Za-z0-9_-]{21}")
BASES = ("/v1/exec", "/v1/exec/exec")
QUIET: dict[str, Any] = {
    "stdout": "",
    "stderr": "",
    "files": [],
    "deleted_files": [],
    "code": 0,
    "signal": None,
    "status": None,
    "message": None,
}


@pytest.fixture(scope="module")
def real() -> Iterator[Service]:
    """The service of one machine: local stores and the local executor, with every required layer."""
    given = Settings.read(os.environ)
    build_jail(given.cache)
    # Programs run as users of their own, who have to reach the workspace: the folders above it let them pass.
    with tempfile.TemporaryDirectory(prefix="workroom-golden-") as folder:
        Path(folder).chmod(0o711)
        room = open_room(replace(given, data=Path(folder) / "data", port=0, dev_key=False))
        try:
            with serving(room) as running:
                yield running
        finally:
            close_room(room)


def run(service: Service, lang: str, code: str, base: str = "/v1/exec", **more: Any) -> dict[str, Any]:
    """Run a program; its answer, of which the wall time is checked and taken out."""
    with service.client() as client:
        answer = client.post(base, json={"lang": lang, "code": code, **more})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    assert type(made["wall_time"]) is int
    assert 0 <= made.pop("wall_time") < 60_000
    assert ID.fullmatch(made["session_id"])
    return made


@pytest.mark.parametrize("base", BASES)
def test_a_program_that_prints_and_makes_a_file(real: Service, base: str) -> None:
    code = "import os\nprint('rows: 2')\nos.makedirs('out')\nopen('out/plot.png','wb').write(bytes(1843))\n"
    made = run(real, "py", code, base)
    session, file = made["session_id"], made["files"][0]["id"]
    assert ID.fullmatch(file)
    assert made == {
        **QUIET,
        "session_id": session,
        "stdout": "rows: 2\n",
        "files": [
            {
                "id": file,
                "name": "out/plot.png",
                "path": "out/plot.png",
                "storage_session_id": session,
                "session_id": session,
                "size": 1843,
            }
        ],
    }
    again = run(real, "bash", "rm out/plot.png; rmdir out; pwd", base, session_id=session)
    assert again == {**QUIET, "session_id": session, "stdout": "/mnt/data\n", "deleted_files": ["out/plot.png"]}


@pytest.mark.parametrize("base", BASES)
def test_G7_a_program_that_fails(real: Service, base: str) -> None:
    made = run(real, "py", "print('so far')\n1/0\n", base)
    assert made.pop("stderr").endswith("ZeroDivisionError: division by zero\n")
    made.pop("session_id")
    assert made == {**{k: v for k, v in QUIET.items() if k != "stderr"}, "stdout": "so far\n", "code": 1}
    made = run(real, "bash", "echo out; echo err >&2; exit 3", base)
    made.pop("session_id")
    assert made == {**QUIET, "stdout": "out\n", "stderr": "err\n", "code": 3}


def test_a_failure_without_a_word_is_told_on_stderr(real: Service) -> None:
    """Clients show a model neither `code` nor `status` (exec.md A3, A8.5)."""
    made = run(real, "bash", "echo out; exit 3")
    made.pop("session_id")
    assert made == {**QUIET, "stdout": "out\n", "stderr": "exited with code 3\n", "code": 3}


def test_a_cut_output_is_told_on_stderr(real: Service) -> None:
    made = run(real, "py", f"import sys\nprint('x' * {2 * MIB})\nsys.stderr.write('careful')\nsys.exit(4)\n")
    assert (made["status"], made["code"]) == ("OL", 4)
    assert made["stderr"] == f"careful\nstdout was cut: it is longer than {MIB} bytes\n"


@pytest.mark.parametrize("base", BASES)
def test_a_program_that_does_not_compile(real: Service, base: str) -> None:
    made = run(real, "c", "int main(", base)
    assert made["code"] not in (0, None)
    assert "error" in made["stderr"]
    assert (made["stdout"], made["files"], made["status"]) == ("", [], None)


@pytest.mark.parametrize("base", BASES)
def test_a_program_that_runs_out_of_time_is_TO(real: Service, base: str) -> None:
    made = run(real, "py", "print('step 1')\nimport time\ntime.sleep(99)\n", base, timeout=1500)
    assert made["stdout"] == "step 1\n"
    assert made["status"] == "TO"
    assert made["code"] is None or made["signal"] is None
    assert "timed out after 1.5 s" in made["stderr"]
    assert made["message"]


def test_A16_a_timeout_shorter_than_the_program_is_honoured(real: Service) -> None:
    made = run(real, "bash", "sleep 5; echo late", timeout=1)
    assert (made["stdout"], made["status"]) == ("", "TO")


@pytest.mark.parametrize("base", BASES)
def test_a_finite_program_that_prints_too_much_is_OL_with_head_and_tail(real: Service, base: str) -> None:
    made = run(real, "py", "print('head')\nprint('a' * (4 * 2**20))\nprint('tail')\n", base)
    assert (made["code"], made["signal"], made["status"]) == (0, None, "OL")
    assert made["stdout"].startswith("head\naaa")
    assert made["stdout"].endswith("aaa\ntail\n")
    assert len(made["stdout"]) <= 1 * MIB + 4 * KIB
    between = [line for line in made["stdout"].splitlines() if not line.startswith("aaa")]
    assert len(between) == 3
    assert re.search(r"\d", between[1]), "where bytes are left out, a line says how many"


@pytest.mark.parametrize("base", BASES)
def test_a_flood_is_stopped_and_is_OL(real: Service, base: str) -> None:
    made = run(real, "bash", "yes", base, timeout=60_000)
    assert made["status"] == "OL"
    assert made["stdout"].startswith("y\ny\n")
    assert len(made["stdout"]) <= 1 * MIB + 4 * KIB
    assert made["stderr"]
    assert made["message"]


@pytest.mark.parametrize("base", BASES)
def test_a_program_that_a_signal_ends_is_SG(real: Service, base: str) -> None:
    made = run(real, "bash", "echo before; kill -SEGV $$", base)
    assert (made["stdout"], made["code"], made["signal"], made["status"]) == ("before\n", None, "SIGSEGV", "SG")
    assert made["stderr"]
    assert made["message"]


def test_B1_bytes_that_are_not_UTF8_are_replaced(real: Service) -> None:
    made = run(real, "py", 'import sys\nsys.stdout.buffer.write(b"\\xff\\xfe\\x00ok")\n')
    assert made["stdout"].endswith("\0ok")
    assert made["stdout"] != "ok"
    assert made["code"] == 0
    made["stdout"].encode("utf-8")


def test_B2_a_NUL_in_the_output_is_kept(real: Service) -> None:
    assert run(real, "bash", r"printf 'a\0b'")["stdout"] == "a\0b"


def test_B1_output_that_ends_inside_a_character_is_no_error(real: Service) -> None:
    made = run(real, "bash", r"printf 'ok\xe2\x82'")
    assert made["stdout"].startswith("ok")
    assert made["code"] == 0


def test_output_is_exact(real: Service) -> None:
    for text in ("  x\n\n", "no newline", "\n", "\r\n\t\x1b[0m", "π 🤣"):
        code = f"import sys\nsys.stdout.write({text!r})\nsys.stderr.write({text!r})\n"
        made = run(real, "py", code)
        assert (made["stdout"], made["stderr"]) == (text, text)


def test_C1_an_uploaded_name_is_exact_in_the_program_and_back(real: Service) -> None:
    with real.client() as client:
        up = client.post("/v1/exec/upload", files={"file": ("报告/été 🤣.csv", b"1\n")}).json()
    made = run(real, "bash", 'cat "报告/été 🤣.csv"; ls 报告', session_id=up["session_id"])
    assert made["stdout"] == "1\nété 🤣.csv\n"
    assert made["files"] == []


@pytest.mark.parametrize(
    "name", ["a b.txt", "a+b.txt", "100%.txt", "%2e%2e", "a#b?.txt", "a&b=c.txt", "-rf", "🤣.txt", "'q'"]
)
def test_C4_a_name_that_a_program_made_round_trips(real: Service, name: str) -> None:
    made = run(real, "py", f"open({name!r}, 'w').write('mine')")
    assert [row["name"] for row in made["files"]] == [name]
    with real.client() as client:
        session, ident = made["session_id"], made["files"][0]["id"]
        assert client.get(f"/v1/download/{session}/{ident}").content == b"mine"
        (row,) = client.get(f"/v1/files/{session}").json()
        assert row["metadata"]["original-filename"] == name


def test_D2_files_of_another_session_reach_the_program(real: Service) -> None:
    with real.client() as client:
        up = client.post("/v1/upload", files={"file": ("data.csv", b"1,2\n")}).json()
    session = run(real, "bash", "echo x > own")["session_id"]
    for home in ("storage_session_id", "session_id"):
        reference = {"id": up["files"][0]["fileId"], "name": f"{home}.csv", home: up["session_id"]}
        made = run(real, "bash", f"cat {home}.csv own", session_id=session, files=[reference])
        assert (made["session_id"], made["stdout"], made["stderr"]) == (session, "1,2\nx\n", "")
    # without a session of its own the run happens where its first file lives
    reference = {"id": up["files"][0]["fileId"], "name": "data.csv", "storage_session_id": up["session_id"]}
    assert run(real, "bash", "cat data.csv", files=[reference])["session_id"] == up["session_id"]


def test_E1_links_that_a_program_made_are_not_followed(real: Service) -> None:
    made = run(real, "bash", "ln -s /proc/self/environ out.txt; ln -s /etc outd; ln -s . self; echo x > real.txt")
    session = made["session_id"]
    assert [row["name"] for row in made["files"]] == ["real.txt"]
    with real.client() as client:
        for name in ("out.txt", "outd/passwd", "self/real.txt", "self"):
            assert client.get(f"/v1/download/{session}/{name}").status_code == 404
        assert len(client.get(f"/v1/files/{session}").json()) == 1


def test_a_read_only_upload_that_a_program_changes_is_echoed_and_kept(real: Service) -> None:
    with real.client() as client:
        up = client.post("/v1/upload", files={"file": ("r.txt", b"keep")}, data={"read_only": "true"}).json()
        made = run(real, "bash", "chmod +w r.txt; echo changed > r.txt; cat r.txt", session_id=up["session_id"])
        assert made["stdout"] == "changed\n"
        assert made["files"] == [
            {
                "id": up["files"][0]["fileId"],
                "name": "r.txt",
                "path": "r.txt",
                "storage_session_id": up["session_id"],
                "session_id": up["session_id"],
                "size": 4,
                "inherited": True,
            }
        ]
        assert client.get(f"/v1/download/{up['session_id']}/r.txt").content == b"keep"


def test_a_closed_socket_stops_a_real_program_and_keeps_nothing(real: Service) -> None:
    session = run(real, "bash", "echo 1 > kept")["session_id"]
    body = '{"lang":"bash","code":"echo 2 > lost; sleep 60; echo 3 > lost","session_id":"%s"}' % session  # noqa: UP031
    with real.connect() as sock:
        head = f"POST /v1/exec HTTP/1.1\r\nHost: h\r\nX-API-Key: {real.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall((head + body).encode())
        wait_for_running(real, 1)
    wait_for_running(real, 0)
    made = run(real, "bash", "ls", session_id=session)
    assert made["stdout"] == "kept\n"


def wait_for_running(service: Service, count: int) -> None:
    with service.client() as client:
        expect_eventually(lambda: client.get("/v1/health").json()["executor"]["running"] == count, 15)
