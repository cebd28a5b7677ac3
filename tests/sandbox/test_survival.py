"""What is left of a run, of a session and of a dead function: nothing (DESIGN §7; cases.md A15, K3)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.cases.attacks import DAEMON
from tests.sandbox import attacks
from tests.sandbox.rooms import TENANT, Room, room


def _looked(text: str) -> dict[str, str]:
    rows = dict(line.split(" ", 1) for line in text.splitlines()[:-1])
    return rows | {"processes": text.splitlines()[-1]}


def _is_empty(made: Room, text: str, workspace: str) -> None:
    """Nothing but what every run has: its home, its source, its workspace, and the few processes around it."""
    rows = _looked(text)
    assert rows.pop("/tmp") == "['.workspace', 'home', 'program']"
    assert rows.pop("/tmp/home") == "[]"
    assert rows.pop("/mnt/data") == workspace
    assert int(rows.pop("processes")) <= 6
    assert rows.get("/dev/shm", "[]") == "[]"
    assert rows.get("/var/tmp", "[]") == "[]"
    assert {rows.get(table, "0") for table in ("shm", "msg", "sem")} == {"0"}


def test_K3_a_deaf_daemon_is_dead_before_the_answer(sole: Room) -> None:
    started = sole.python(DAEMON, "k3", wall_ms=15_000)
    assert (started.stdout, started.code) == ("started\n", 0), started
    time.sleep(0.3)
    again = sole.bash("rm -f left late; sleep 0.4; ls -A", "k3")
    assert again.stdout == "", again
    _is_empty(sole, sole.python(attacks.LOOK, "k3").stdout, "[]")


def test_K3_a_daemon_whose_first_thread_has_ended_is_found_too(sole: Room) -> None:
    assert sole.run("c", attacks.HEADLESS, "headless").stdout == "started\n"
    _is_empty(sole, sole.python(attacks.LOOK, "headless").stdout, "[]")


def test_what_a_run_leaves_elsewhere_is_gone_for_the_next_and_its_workspace_is_kept(sole: Room) -> None:
    left = sole.python(attacks.LEAVE, "leaver")
    assert (left.stdout, left.code) == ("left\n", 0), left
    assert {entry.path for entry in left.changes} == {"shut", "shut/file"}
    assert left.lost == ()
    assert sole.body(left, "shut/file") == b"left"
    assert {entry.path: entry.mode for entry in left.changes} == {"shut": 0, "shut/file": 0}
    _is_empty(sole, sole.python(attacks.LOOK, "leaver").stdout, "['shut']")
    kept = sole.bash(
        "stat -c '%a %s' shut; chmod 700 shut; stat -c %a shut/file; chmod 600 shut/file; cat shut/*", "leaver"
    )
    assert kept.stdout.split() == ["0", "60", "0", "left"], kept


def test_another_session_finds_nothing_and_the_first_is_restored(sole: Room) -> None:
    sole.python(attacks.LEAVE, "one")
    _is_empty(sole, sole.python(attacks.LOOK, "other").stdout, "[]")
    found = sole.bash("grep -rl left / --include=file --include=left 2>/dev/null | grep -v ^/proc | head", "other")
    assert found.stdout == ""
    back = sole.bash("stat -c %a shut; chmod 700 shut; stat -c %a shut/file; chmod 600 shut/file; cat shut/file", "one")
    assert back.stdout.split() == ["0", "0", "left"], back
    assert sole.bash("rm -r shut", "one").deleted == ("shut", "shut/file")


def test_a_held_workspace_is_restored_from_nothing_but_changes(sole: Room) -> None:
    sole.bash(
        "mkdir -p a/b; head -c 100000 /dev/urandom > a/b/c; ln -s b a/l; mkfifo p; echo '#!' > x; chmod 751 x", "h"
    )
    before = sole.shelf.served["GET"]
    first = sole.bash("ls -lR --time-style=full-iso | tee /dev/stderr | md5sum; readlink a/l", "h")
    assert sole.shelf.served["GET"] == before
    assert first.changes == ()
    sole.bash("true", "another")
    second = sole.bash("ls -lR --time-style=full-iso | md5sum; readlink a/l", "h")
    assert sole.shelf.served["GET"] > before
    assert second.stdout == first.stdout
    assert second.changes == ()


def test_large_outputs_and_answers_go_by_grant(sole: Room) -> None:
    put = sole.shelf.served["PUT"]
    answer = sole.bash("head -c 3000000 /dev/urandom > big; md5sum big", "big")
    entry = next(entry for entry in answer.changes if entry.path == "big")
    assert entry.blob.startswith("out/")
    assert sole.shelf.served["PUT"] > put
    assert sole.bash("true").code == 0
    assert sole.bash("md5sum big", "big").stdout == answer.stdout
    # As JSON each of these bytes is six: the answer is above what the platform passes on.
    control = sole.python("import sys; sys.stdout.write('\\x01' * 1_000_000); sys.stderr.write('\\x02' * 60_000)")
    assert (len(control.stdout), len(control.stderr)) == (1_000_000, 60_000)
    assert sole.bash(f": {'x' * 5_200_000}\necho large", "request").stdout == "large\n"


def test_a_program_that_kills_or_stops_its_supervisor_is_an_error_and_leaves_nothing(sole: Room) -> None:
    """The filter keeps it from doing so; where there is none, the run is lost and the next is as any other."""
    for code in (attacks.ESCAPE, attacks.FREEZE):
        request = sole.request("py", code, "escape", wall_ms=1_000)
        if sole.filtered:
            answer = sole.executor.run(request)
            assert (answer.code, "PermissionError" in answer.stderr) == (1, True), answer
        else:
            failed = sole.failure("py", code, "escape", wall_ms=1_000)
            assert failed.kind == "broken", failed.why
        # What was killed with its supervisor takes a moment to be gone; what lives on stays.
        until = time.monotonic() + 10
        while int(_looked(text := sole.python(attacks.LOOK, "escape").stdout)["processes"]) > 6:
            assert time.monotonic() < until, text
        _is_empty(sole, text, "[]")


def test_a_program_may_empty_tmp_and_keeps_its_workspace(sole: Room) -> None:
    emptied = sole.bash("echo kept > f; touch /tmp/x; rm -rf /tmp/*; ls -A /tmp; cat f", "emptier")
    assert (emptied.stdout, emptied.code) == (".workspace\nkept\n", 0), emptied
    assert sole.bash("cat f; pwd; ls /workspace/", "emptier").stdout == "kept\n/mnt/data\nf\n"


@pytest.mark.parametrize(
    "code",
    [
        "rm -rf /tmp/.workspace",
        "cp -r /tmp/.workspace /tmp/w; rm -rf /tmp/.workspace; mv /tmp/w /tmp/.workspace",
        "mv /tmp/.workspace /tmp/w; ln -s /etc /tmp/.workspace",
        "mv /tmp/.workspace /tmp/w; ln -s w /tmp/.workspace",
        "rm -rf /tmp/program; ln -s /etc /tmp/program; mv /tmp/.workspace /tmp/w; touch /tmp/.workspace",
    ],
)
def test_a_workspace_that_is_removed_or_put_elsewhere_fails_its_run_and_stays_as_it_was(sole: Room, code: str) -> None:
    sole.bash("echo kept > f", "mover")
    failed = sole.failure("bash", code, "mover")
    assert (failed.kind, failed.why) == ("broken", "the workspace was removed or put elsewhere")
    assert sole.bash("cat f; ls -A /tmp /tmp/program", "mover").stdout.startswith("kept\n")
    assert sole.function.lines()[-1]["kind"] == "answered"


def test_it_works_as_root_of_a_container() -> None:
    with room("root") as made:
        assert made.health()["trouble"] == ""
        made.python(attacks.LEAVE, "s")
        _is_empty(made, made.python(attacks.LOOK, "s").stdout, "['shut']")
        _is_empty(made, made.python(attacks.LOOK, "t").stdout, "[]")


def test_what_a_dead_function_left_is_ended_and_emptied_by_the_next() -> None:
    with room("like lambda") as made:
        made.bash("echo mine > f", "s")
        failed = made.failure("py", attacks.REGICIDE, "s", wall_ms=4_000)
        assert failed.kind == "broken"
        _is_empty(made, made.python(attacks.LOOK, "s").stdout, "['f']")
        assert made.bash("cat f", "s").stdout == "mine\n"


def test_the_platforms_time_out_is_a_timeout_and_leaves_nothing() -> None:
    """A program stops its supervisor, and the platform loses patience before the function does."""
    with room("like lambda", function_s="6") as made:
        made.bash("true")
        failed = made.failure("py", attacks.FREEZE, wall_ms=1_500)
        assert failed.kind == "timeout", failed.why
        _is_empty(made, made.python(attacks.LOOK).stdout, "[]")


def test_another_tenant_is_refused_and_finds_a_new_environment() -> None:
    with room("like lambda") as made:
        made.python(attacks.LEAVE, "s")
        assert made.failure("bash", "echo never", tenant="tenant-b").kind == "broken"
        assert made.function.lines()[-1]["kind"] == "retired"
        looked = made.request("py", attacks.LOOK, tenant="tenant-b")
        _is_empty(made, made.executor.run(looked).stdout, "[]")
        assert made.failure("bash", "echo never", tenant=TENANT).kind == "broken"
        assert made.bash("echo again", tenant=TENANT).stdout == "again\n"


def test_a_run_without_a_tenant_is_refused() -> None:
    with room("like lambda") as made:
        event = {"op": "run", "run_id": "run", "request": made.request("bash", "echo x", run_id="run").to_json()}
        assert made.function.invoke(event, None)["error"] == "unavailable"


def test_a_run_id_is_taken_once(sole: Room) -> None:
    request = sole.request("bash", "echo once")
    event = {"op": "run", "run_id": request.run_id, "request": request.to_json()}
    first = sole.function.invoke(event, TENANT)
    assert first["answer"]["stdout"] == "once\n"
    again = sole.function.invoke(event, TENANT)
    assert (again["error"], again["why"]) == ("broken", "the run id is taken")
    other = replace(request, run_id="other")
    mixed = sole.function.invoke({"op": "run", "run_id": "third", "request": other.to_json()}, TENANT)
    assert mixed["error"] == "broken"


def test_what_is_no_event_is_an_error_and_the_function_goes_on(sole: Room) -> None:
    events: list[object] = [
        {}, [], None, "run", {"op": "other"}, {"op": "run"}, {"op": "run", "run_id": 7}, {"op": "run", "run_id": "a1"},
        {"op": "run", "run_id": "a2", "request": []}, {"op": "run", "run_id": "a3", "request": {"run_id": "a3"}},
        {"op": "run", "run_id": "a4", "request_at": "file:/etc/passwd", "request_bytes": 10},
        {"op": "run", "run_id": "a5", "request_at": "http://127.0.0.1:1/x", "request_bytes": 10},
        {"op": "run", "run_id": "a6", "request_at": 1, "request_bytes": -1}, {"op": "run", "run_id": "x" * 300},
    ]  # fmt: skip
    for event in events:
        answer = sole.function.invoke(event, TENANT)  # type: ignore[arg-type]
        assert answer.get("error") == "broken", (event, answer)
    assert sole.bash("echo fine").stdout == "fine\n"


def test_the_answer_comes_before_the_platforms_time_out() -> None:
    with room("like lambda", function_s="8") as made:
        made.bash("true")
        begun = time.monotonic()
        answer = made.bash("echo begun; sleep 60", wall_ms=60_000)
        assert time.monotonic() - begun < 7
        assert (answer.reason, answer.stdout) == ("time", "begun\n")
        assert answer.wall_ms <= 5_100
    with room("like lambda", function_s="3") as made:
        assert made.failure("bash", "echo never").kind == "timeout"


def test_a_programs_variables_stand_in_no_argument_list_and_are_gone_for_the_next(sole: Room) -> None:
    env = {"SECRET": "secret-of-this", "PATH": "/usr/bin:/bin:/usr/local/bin"}
    code = 'echo "$SECRET $PATH"; cat /proc/[0-9]*/cmdline | tr "\\0" "\\n" | grep -c "^SECRET=\\|secret-of-this"'
    answer = sole.bash(code, "variables", env=env)
    # The pattern that grep itself is given is the one that is found.
    assert answer.stdout.splitlines()[0] == "secret-of-this /usr/bin:/bin:/usr/local/bin"
    assert int(answer.stdout.splitlines()[1]) <= 1
    assert sole.bash('echo "<$SECRET>"; ls -A /program', "variables").stdout == "<>\nmain.sh\n"
