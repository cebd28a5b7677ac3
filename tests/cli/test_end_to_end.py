"""The command and MCP with real programs in the real sandbox, on a data folder, as a person uses them."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from .conftest import MACHINE_CACHE, Workroom

PNG = b"\x89PNG\r\n\x1a\n"

PLOT = """
import sys
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()
print(open("data/in.txt").read() + sys.argv[1])
sys.stderr.write("careful")
sys.exit(3)
"""


@pytest.fixture
def real(local: Workroom, monkeypatch: pytest.MonkeyPatch) -> Workroom:
    """The command with the machine's toolchains."""
    monkeypatch.setenv("WORKROOM_CACHE", MACHINE_CACHE)
    return local


def test_upload_run_and_save(real: Workroom, tmp_path: Path) -> None:
    (tmp_path / "top" / "data").mkdir(parents=True)
    (tmp_path / "top" / "data" / "in.txt").write_text("grüße ")
    session = real("upload", "new", "top/data").out.decode().strip()
    (tmp_path / "plot.py").write_text(PLOT)
    ran = real("run", "plot.py", "--session", session, "--out", "saved", "--args", "a b")
    assert (ran.code, ran.out, ran.err) == (3, "grüße a b\n".encode(), "careful")
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["plot-1.png"]
    assert (tmp_path / "saved" / "plot-1.png").read_bytes().startswith(PNG)
    (tmp_path / "then.sh").write_text("cat data/in.txt; kill -TERM $$")
    then = real("run", "then.sh", "--session", session)
    assert (then.code, then.out) == (143, "grüße ".encode())


def test_mcp_on_standard_input_shows_a_plot(tmp_path: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "functions.cli.main", "mcp"],
        env={
            "PATH": os.environ["PATH"],
            "WORKROOM_DATA": str(tmp_path / "mcp"),
            "WORKROOM_CACHE": MACHINE_CACHE,
        },
        cwd=Path(__file__).parents[2],
    )

    async def main() -> tuple[Any, Any]:
        with anyio.fail_after(90):
            async with Client(command) as client:
                written = await client.call_tool("files_write", {"name": "data/in.txt", "content": "from mcp "})
                session = written.structured_content["session_id"]
                arguments = {"lang": "py", "code": PLOT, "args": ["!"], "session_id": session}
                return await client.call_tool("exec_run", arguments), await client.call_tool("health_get", {})

    ran, health = anyio.run(main)
    assert not ran.is_error
    assert [block.type for block in ran.content] == ["text", "text", "text", "image"]
    assert ran.content[0].text == "from mcp !\n"
    assert ran.content[1].text == "stderr:\ncareful"
    assert "exit code 3" in ran.content[2].text
    assert base64.b64decode(ran.content[3].data).startswith(PNG)
    assert health.structured_content["executor"]["ready"] is True


def test_a_turn_that_the_command_has_begun_is_done_when_the_command_ends(real: Workroom) -> None:
    asked = {"agent": {"model": "program:bash"}, "environment": {"type": "openai_hosted"}, "input": "echo out"}
    made = real("call", "sessions.create", json.dumps(asked))
    assert (made.code, made.err) == (0, "")
    named = json.dumps({"session_id": json.loads(made.out)["id"]})
    (turn,) = json.loads(real("call", "turns.list", named).out)["data"]
    assert turn["status"] == "completed"
