"""cases.md G: a program's failure is no error of the service, and the reverse; through HTTP."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pytest

from sandbox_image.locate import build_jail, find_root
from shared.executor.local import LocalExecutor
from shared.executor.port import ExecutorFailed
from shared.executor.wire import RunRequest
from shared.settings import Settings
from shared.store.local.objects import FileObjects
from tests.cases.door import Service, environment, plain_limits, served


@pytest.mark.parametrize(
    ("lang", "code", "exit_code", "said"),
    [
        ("py", "1/0", 1, "ZeroDivisionError: division by zero"),
        ("c", "int main(", 1, "main.c:1:"),
        ("cpp", "int main() { return x; }", 1, "was not declared"),
        ("py", "raise SystemExit('words')", 1, "words"),
        ("py", "import os; os._exit(255)", 255, ""),
        ("bash", "exit 256", 0, ""),
        ("bash", "exit -1", 255, ""),
        ("bash", "exec /no/such/program", 127, "No such file or directory"),
        ("bash", "cat /mnt/data/none", 1, "No such file"),
        ("js", "process.exit(200)", 200, ""),
        ("java", "class M { }", 1, "main"),
        ("go", "package main\n", 2, "function main is undeclared"),
        ("rs", "", 0, ""),
        ("d", "void main() { assert(0, \"words\"); }", 1, "words"),
    ],
)  # fmt: skip
def test_G7_a_program_that_fails_is_answered_200(
    service: Service, lang: str, code: str, exit_code: int, said: str
) -> None:
    if not code:
        answer = service.post({"lang": lang, "code": code})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        assert "`code`" in answer.json()["message"]
        return
    ran = service.run(lang, code).expect_end(exit_code)
    assert said in ran.stderr, ran
    assert ran.message is None


@pytest.mark.parametrize(
    ("code", "name"),
    [("kill -TERM $$", "SIGTERM"), ("kill -SEGV $$", "SIGSEGV"), ("kill -KILL $$", "SIGKILL"), ("kill -34 $$", "SIG34"),
     ("kill -PIPE $$", "SIGPIPE"), ("kill -USR1 $$", "SIGUSR1")],
)  # fmt: skip
def test_G7_a_program_that_a_signal_ends(service: Service, code: str, name: str) -> None:
    ran = service.run("bash", f"echo before; echo f > f; {code}")
    assert (ran.code, ran.status, ran.stdout, ran.names) == (None, "SG", "before\n", ["f"])
    assert ran.signal in (name, "SIGRTMIN")
    assert ran.last_line().startswith("killed by signal ")
    assert ran.message == f"The program was ended by {ran.signal}."


def test_G7_the_answer_has_every_member(service: Service) -> None:
    """exec.md A7: each is there, also when there is nothing to say."""
    data = service.post({"lang": "bash", "code": "true"}).json()
    expected = {
        "session_id", "stdout", "stderr", "files", "deleted_files", "code", "signal", "status", "message", "wall_time"
    }  # fmt: skip
    assert set(data) == expected
    assert (data["files"], data["deleted_files"], data["signal"], data["status"], data["message"]) == (
        [], [], None, None, None
    )  # fmt: skip
    assert isinstance(data["wall_time"], int)
    assert 0 <= data["wall_time"] < 5_000
    assert len(data["session_id"]) == 21


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"code": "1"}, "lang"),
        ({"lang": "cobol", "code": "1"}, "lang"),
        ({"lang": "PY", "code": "1"}, "lang"),
        ({"lang": "py"}, "code"),
        ({"lang": "py", "code": ""}, "code"),
        ({"lang": "py", "code": ["print(1)"]}, "code"),
        ({"lang": "py", "code": "a\0b"}, "code"),
        ({"lang": "py", "code": "#" * (2**20 + 1)}, "code"),
        ({"lang": "py", "code": "1", "args": "x"}, "args"),
        ({"lang": "py", "code": "1", "args": ["x", 1]}, "args"),
        ({"lang": "py", "code": "1", "args": ["a\0"]}, "args"),
        ({"lang": "py", "code": "1", "args": ["x" * 40_000, "y" * 40_000]}, "args"),
        ({"lang": "py", "code": "1", "files": {}}, "files"),
        ({"lang": "py", "code": "1", "files": [{"name": "x"}]}, "files"),
        ({"lang": "py", "code": "1", "session_id": 5}, "session_id"),
        ({"lang": "py", "code": "1", "session_id": ""}, "session_id"),
    ],
)  # fmt: skip
def test_bad_input_is_400_naming_the_member_and_runs_nothing(service: Service, body: object, named: str) -> None:
    answer = service.post(body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == "invalid_request"
    assert f"`{named}" in answer.json()["message"]


def test_a_program_of_a_mebibyte_runs(service: Service) -> None:
    head = "print('big')\n#"
    service.run("py", head + "x" * (2**20 - len(head))).expect("big\n")
    args = ["a" * 32_000, "b" * 32_000]
    service.run("py", "import sys\nprint(len(''.join(sys.argv[1:])))", args=args).expect("64000\n")


@pytest.mark.parametrize("missing", ["jail", "root"])
def test_G8_a_missing_executor_is_told_by_health_and_is_503(missing: str, tmp_path: Path) -> None:
    """Liveness, uploads and listings go on; a run is an error of the service, never an empty success."""
    with served(runs=False, **{missing: str(tmp_path / "nowhere")}) as service:
        open_answer = service.ask("GET", "/v1/health", key="")
        assert (open_answer.status_code, open_answer.json()) == (200, {"status": "ok"})
        health = service.ask("GET", "/v1/health").json()
        assert (health["status"], health["store"]["ready"], health["executor"]["ready"]) == ("degraded", True, False)
        assert health["executor"]["why"]
        session = service.upload("f", b"x")
        answer = service.post({"lang": "bash", "code": "echo ran > f", "session_id": session})
        assert answer.status_code == 503
        assert answer.json()["error"] == "executor_unavailable"
        assert str(tmp_path) not in answer.text
        assert service.names(session) == ["f"]
        assert service.read(session, "f") == b"x"
        started = service.post({"lang": "bash", "code": "true"}, headers={"Prefer": "respond-async"})
        assert started.status_code == 202


def test_G8_a_layer_that_is_required_and_not_active_runs_nothing(tmp_path: Path) -> None:
    settings = Settings.read({k: v for k, v in environment(tmp_path).items() if k.startswith("WORKROOM_")})
    work = settings.cache / "work" / f"layers-{secrets.token_hex(8)}"
    executor = LocalExecutor(
        FileObjects(tmp_path / "objects"),
        root=settings.root or find_root(settings.cache),
        jail=settings.jail or build_jail(settings.cache),
        work=work,
        required_layers=frozenset({"clean", "filter"}),
        off=frozenset({"filter"}),
    )
    try:
        health = executor.health()
        assert health.ready is False
        assert "`filter`" in health.why
        assert (health.layers["filter"].active, health.layers["filter"].required) == (False, True)
        assert (health.layers["clean"].active, health.layers["paths"].required) == (True, False)
        with pytest.raises(ExecutorFailed) as failed:
            executor.run(
                RunRequest(run_id="r", workspace="w", lang="bash", code="echo ran", args=(), limits=plain_limits())
            )
        assert failed.value.kind == "unavailable"
    finally:
        executor.close()
        shutil.rmtree(work)
