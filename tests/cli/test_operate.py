"""`workroom call`, `keys`, `janitor`, help and the generated tables."""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import time
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from functions.cli import docs
from functions.cli.commands import COMMANDS
from shared.limits import Limits
from shared.operations.all import operations
from shared.settings import Settings
from tests.wire.scripted import program
from tests.wire.service import Service

from .conftest import Workroom


def call(workroom: Workroom, name: str, data: object) -> object:
    ended = workroom("call", name, json.dumps(data))
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_every_operation_is_listed_with_its_summary(local: Workroom) -> None:
    listed = local("call", "--list").out.decode()
    for name, operation in operations().items():
        assert f"{name} " in listed
        assert operation.summary in listed


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_has_help_and_a_closed_schema(local: Workroom, name: str) -> None:
    helped = local("call", name, "--help")
    assert helped.code == 0
    assert operations()[name].summary in helped.out.decode()
    schema = json.loads(local("call", name, "--schema").out)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)


def test_operations_with_and_without_a_route_answer_the_same_things(remote: Workroom) -> None:
    body = base64.b64encode(b"\x00\xff").decode()
    stored = call(remote, "files.write", {"name": "in/a.bin", "content": body, "encoding": "base64"})
    assert isinstance(stored, dict)
    session = stored["session_id"]
    read = call(remote, "files.read", {"session_id": session, "file_id": "in/a.bin"})
    assert isinstance(read, dict)
    assert (read["content"], read["encoding"]) == (body, "base64")
    rows = call(remote, "files.list", {"session_id": session})
    assert isinstance(rows, list)
    assert rows[0]["metadata"]["original-filename"] == "in/a.bin"
    stat = call(remote, "files.stat", {"session_id": session, "file_id": "in/a.bin"})
    assert isinstance(stat, dict)
    assert stat["size"] == 2
    ran = call(remote, "exec.run", {"lang": "py", "code": program(show="files"), "session_id": session})
    assert isinstance(ran, dict)
    assert ran["stdout"] == '["in/a.bin"]'
    call(remote, "files.delete", {"session_id": session, "file_id": "in/a.bin"})
    assert call(remote, "files.list", {"session_id": session}) == []


def test_operations_of_the_agents_api_are_reached_too(remote: Workroom) -> None:
    about = {"bytes": 0, "filename": "empty", "mime_type": "text/plain", "purpose": "user_data"}
    begun = call(remote, "sources.begin_upload", about)
    assert isinstance(begun, dict)
    done = call(remote, "sources.complete_upload", {"upload_id": begun["id"], "part_ids": []})
    assert isinstance(done, dict)
    listed = call(remote, "sources.list", {"order": "asc"})
    assert isinstance(listed, dict)
    assert listed["last_id"] == done["file"]["id"]
    gone = {"id": done["file"]["id"], "object": "file", "deleted": True}
    assert call(remote, "sources.delete", {"file_id": done["file"]["id"]}) == gone
    assert call(remote, "sources.list", {})["data"] == []  # type: ignore[index]


def test_a_run_in_the_background_is_started_and_found(remote: Workroom) -> None:
    started = call(remote, "exec.start", {"lang": "py", "code": program(stdout="later")})
    assert isinstance(started, dict)
    limit = time.monotonic() + 20
    while (found := call(remote, "runs.get", {"run_id": started["id"]}))["status"] == "running":  # type: ignore[index]
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert isinstance(found, dict)
    assert found["result"]["stdout"] == "later"


def test_the_input_comes_from_standard_input_too(remote: Workroom, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"lang": "py", "code": program(stdout="x")}).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert json.loads(remote("call", "exec.run", "-").out)["stdout"] == "x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "no.such", "{}"], "there is no such operation"),
        (["call", "exec.run", "{"], "not JSON"),
        (["call", "exec.run", "[]"], "must be a JSON object"),
        (["call", "exec.run", "[" * 100_000], "not JSON"),
        (["call", "exec.run", '{"lang":"py","code":"x","apiKey":"y"}'], "`apiKey`"),
        (["call", "exec.run", '{"lang":"cobol","code":"x"}'], "`lang`"),
        (["call", "exec.run", '{"lang":"py","code":""}'], "`code`"),
        (["call", "exec.programmatic", "{}"], "suspend"),
        (["call", "files.list", '{"session_id":".."}'], "not a valid id"),
        (["call", "files.read", f'{{"session_id":"{"A" * 21}","file_id":"a"}}'], ""),
    ],
)
def test_what_is_refused_is_one_line_and_exit_code_1(remote: Workroom, words: list[str], said: str) -> None:
    ended = remote(*words)
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err.startswith("error: ")
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


def test_a_key_is_made_shown_once_listed_and_revoked(local: Workroom, tmp_path: Path) -> None:
    made = local("keys", "create", "--project", "alpha", "--name", "for\x1b me")
    key = made.out.decode().strip()
    assert key.startswith("wr_")
    assert key not in made.err
    listed = local("keys", "list").out.decode()
    assert "alpha" in listed
    assert key not in listed
    assert "\x1b" not in listed
    ident = next(row.split()[0] for row in listed.splitlines() if "alpha" in row)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert key.encode() not in stored
    assert local("keys", "revoke", ident).code == 0
    assert local("keys", "revoke", ident).code == 1
    assert "alpha" not in local("keys", "list").out.decode()


def test_a_made_key_opens_its_own_project_on_the_data_folder(
    local: Workroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [local("keys", "create", "--project", name).out.decode().strip() for name in ("alpha", "beta")]
    (tmp_path / "a").write_text("a")
    monkeypatch.setenv("WORKROOM_KEY", keys[0])
    session = local("upload", "new", "a").out.decode().strip()
    assert local("files", session).code == 0
    monkeypatch.setenv("WORKROOM_KEY", keys[1])
    assert local("files", session).code == 1


@pytest.mark.parametrize("project", ["", "A", "a/b", "x" * 41, "../a"])
def test_a_project_name_that_is_none_is_refused(local: Workroom, project: str) -> None:
    ended = local("keys", "create", "--project", project)
    assert (ended.code, ended.out) == (1, b"")
    assert "`project`" in ended.err


def test_operators_operations_never_go_over_http(remote: Workroom, service: Service) -> None:
    before = service.room.state.query("keys", limit=100)
    assert remote("call", "keys.create", '{"project":"mine"}').code == 0
    assert "not of the service" in remote("keys", "list").err
    assert service.room.state.query("keys", limit=100) == before


def test_the_janitor_says_what_it_removed(local: Workroom) -> None:
    assert local("janitor").out == b"removed 0 sessions, 0 objects, 0 records\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_the_overview_names_it(local: Workroom, name: str) -> None:
    helped = local(name, "--help")
    assert (helped.code, helped.err) == (0, "")
    assert f"workroom {name}" in helped.out.decode()
    assert f"\n  {name} " in local("--help").out.decode()
    if (operation := operations().get(COMMANDS[name].prose or "")) is not None:
        assert operation.summary in helped.out.decode()


def test_help_tells_what_holds_of_the_command(local: Workroom) -> None:
    assert "exits with the program's code" in " ".join(local("run", "--help").out.decode().split())
    serve = local("serve", "--help").out.decode()
    for entry in fields(Settings):
        assert f"\nWORKROOM_{entry.name.upper()}" in serve
    assert "\nWORKROOM_PORT (8080)\n" in serve


@pytest.mark.parametrize("name", ["upload", "download", "files", "delete"])
def test_help_of_a_command_speaks_of_no_http_status(local: Workroom, name: str) -> None:
    assert not re.search(r"\b[2345]\d\d\b", local(name, "--help").out.decode().replace("at most 200", ""))


def test_the_version_is_told(local: Workroom) -> None:
    assert local("--version").out.decode() == f"workroom {version('workroom')}\n"


@pytest.mark.parametrize("session", ["-" * 21, "--" + "a" * 19, "-o" + "_" * 19])
def test_an_id_that_looks_like_an_option_is_an_id(remote: Workroom, tmp_path: Path, session: str) -> None:
    (tmp_path / "a.py").write_text(program(stdout="x"))
    for words in (["files", session], ["download", session, session, "-o", "b"], ["run", "a.py", "--session", session]):
        ended = remote(*words)
        assert ended.code == 1
        assert "o such session" in ended.err, ended.err


def test_without_a_command_it_is_a_usage_error(local: Workroom) -> None:
    assert local().code == 2
    assert local("call").code == 2


MARKS = "# T\n<!-- begin:limits -->\nold\n<!-- end:limits -->\ntext\n<!-- begin:settings -->\n<!-- end:settings -->\n"


def test_the_tables_are_made_from_the_code_and_checked(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(MARKS)
    assert docs.main(["--check", str(readme)]) == 1
    assert readme.read_text() == MARKS
    assert docs.main([str(readme)]) == 0
    assert docs.main(["--check", str(readme)]) == 0
    text = readme.read_text()
    assert "\nold\n" not in text
    assert "| `code_bytes` | 1 MiB | a program, in UTF-8 |" in text
    assert "| `run_ms_max` | 300 s |" in text
    assert "| `record_ms` | 24 h |" in text
    assert "| `processes` | 512 processes |" in text
    assert "| `WORKROOM_PORT` | `8080` |" in text
    assert text.count("\n| `") == len(Limits.__slots__) + len(Settings.__slots__)
    readme.write_text(text.replace("1 MiB", "2 MiB", 1))
    assert docs.main(["--check", str(readme)]) == 1


@pytest.mark.parametrize("text", ["", MARKS + MARKS, MARKS.replace("end:limits", "end:limit")])
def test_a_file_without_its_marks_is_an_error(tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    assert docs.main([str(readme)]) == 1
    assert readme.read_text() == text


@pytest.mark.skipif(not docs.README.exists(), reason="the README is written beside this")
def test_the_readme_says_what_the_code_says() -> None:
    assert docs.main(["--check"]) == 0


def test_the_command_makes_an_agent_a_session_and_reads_its_items(remote: Workroom) -> None:
    agent = call(remote, "agents.create", {"model": "program:py", "name": "one", "instructions": None})
    assert isinstance(agent, dict)
    renamed = call(remote, "agents.update", {"agent_id": agent["id"], "name": None})
    assert isinstance(renamed, dict)
    assert renamed["name"] is None
    hosted = {"type": "openai_hosted"}
    asked = {"agent_id": agent["id"], "environment": hosted, "metadata": {"team": "a b"}, "stream": True}
    session = call(remote, "sessions.create", asked)
    assert isinstance(session, dict)
    content = [{"type": "input_text", "text": program(stdout="out")}]
    message = {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}
    assert call(remote, "events.create", {"session_id": session["id"], "events": [message]}) == {}
    found = call(remote, "sessions.list", {"metadata": {"team": "a b"}})
    assert isinstance(found, dict)
    assert [row["id"] for row in found["data"]] == [session["id"]]
    none = call(remote, "sessions.list", {"metadata": {"team": "c"}})
    assert isinstance(none, dict)
    assert none["data"] == []


def test_an_input_without_its_id_is_refused_before_anything_is_asked(remote: Workroom) -> None:
    ended = remote("call", "sessions.update", json.dumps({"metadata": {}}))
    assert ended.code != 0
    assert "`session_id` is required" in ended.err
