"""What protects in each environment, as its health says it, and what that means (cases.md K1, K2, K4, A10, A14)."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from shared.executor.port import ExecutorFailed
from tests.cases.attacks import CONNECT, ESCALATE, SOCKETS
from tests.sandbox import attacks
from tests.sandbox.emulator import CANARIES, UID
from tests.sandbox.rooms import Room, room

EVERYWHERE = {"clean", "reap", "memory", "wipe"}


def test_health_says_which_layers_hold(sole: Room) -> None:
    said = sole.health()
    layers = said["layers"]
    active = {name for name, row in layers.items() if row["active"]}
    assert said["trouble"] == ""
    assert active >= EVERYWHERE
    assert "namespaces" not in active
    if sole.filtered:
        assert active - {"paths"} == EVERYWHERE | {"filter"}
    else:
        assert active == EVERYWHERE
        assert layers["filter"]["detail"].startswith("no program starts with it: ")
    assert [name for name, row in said["languages"].items() if not row["present"]] == []
    assert said["cold_ms"] < 10_000


def test_a_program_is_the_one_user_without_powers(sole: Room) -> None:
    show = "id -u; id -G; grep -E '^(CapEff|CapPrm|CapInh|CapBnd|NoNewPrivs|Seccomp_filters):' /proc/self/status"
    lines = sole.bash(show).stdout.splitlines()
    assert lines[:2] == [str(UID), str(UID)]
    status = dict(line.split(":\t") for line in lines[2:])
    assert {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapBnd")} == {"0" * 16}
    # One filter is the environment's own, which no program may load.
    assert (status["NoNewPrivs"], status["Seccomp_filters"]) == (("1", "2") if sole.filtered else ("0", "1"))


def test_nothing_lends_powers_and_only_known_folders_can_be_written(sole: Room) -> None:
    assert sole.bash("find / -xdev -perm /6000 -type f 2>/dev/null").stdout == ""
    found = sole.bash("find / -path /proc -prune -o -type d -writable -print 2>/dev/null | grep -v ^/tmp/").stdout
    assert set(found.split()) <= {"/tmp", "/dev/shm"}
    assert sole.bash("touch /usr/x /etc/x /x /mnt/x /opt/workroom/x 2>&1 | wc -l").stdout == "5\n"


def test_A14_the_environment_is_an_allow_list(sole: Room) -> None:
    answer = sole.run("js", 'console.log(require("child_process").execSync("env") + "")')
    names = {line.partition("=")[0] for line in answer.stdout.splitlines() if "=" in line}
    assert {"HOME", "PATH", "TMPDIR", "LANG"} <= names
    foreign = ("AWS_", "LAMBDA_", "_HANDLER", "_X_AMZN", "PYTHONPATH", "WORKROOM", "LD_")
    assert [name for name in names if name.startswith(foreign)] == []
    assert "canary" not in answer.stdout


def test_K1_no_process_shows_its_environment_memory_or_descriptors(sole: Room) -> None:
    answer = sole.python(attacks.READ)
    assert answer.code == 0, answer
    lines = answer.stdout.splitlines()
    got = [line for line in lines if line.startswith("got")]
    if not sole.filtered:
        assert got == []
    elif sole.health()["layers"]["paths"]["active"]:
        # How many descriptors the emulator has can be seen, as it has this very user; nothing of them can.
        assert set(got) <= {"got fd rie"}
    else:
        assert {line.split()[-1] for line in got} <= {"rie"}, got
    assert [line for line in lines if not line.startswith("got")] == ["[0, 1, 2]"]


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("bash", 'cat /proc/*/environ /proc/*/task/*/environ /etc/shadow 2>/dev/null | tr "\\0" "\\n"'),
        ("php", "<?php foreach (glob('/proc/*/environ') as $f) echo @file_get_contents($f), \"\\n\";"),
    ],
)
def test_K1_credentials_are_seen_in_no_language(sole: Room, lang: str, code: str) -> None:
    answer = sole.run(lang, code)
    if sole.health()["layers"]["paths"]["active"] or not sole.filtered:
        assert not any(secret in answer.stdout for secret in CANARIES.values())
    assert "root:" not in answer.stdout


def test_K1_the_function_itself_has_forgotten_its_credentials(sole: Room) -> None:
    """Seen from outside, by root: a program that could read its environment would find nothing there."""
    assert sole.bash("true").code == 0
    seen = {pid: Path(f"/proc/{pid}/environ").read_bytes() for pid in _functions(sole.function.pid)}
    assert len(seen) == 1
    (environ,) = seen.values()
    assert b"AWS_LAMBDA_FUNCTION_NAME=function" in environ
    assert not any(secret.encode() in environ for secret in CANARIES.values())


def _functions(top: int) -> list[int]:
    """The processes below `top` that are the function's Python."""
    below, found = [top], []
    while below:
        pid = below.pop()
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            below += [int(child) for child in children.read_text().split()]
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/usr/bin/python3\0-m\0awslambdaric"):
            found.append(pid)
    return found


def test_K2_sockets_are_shut_where_the_filter_is(sole: Room) -> None:
    answer = sole.run("c", SOCKETS)
    if sole.filtered:
        assert answer.stdout == "done\n", answer
    else:
        # What is open there is closed by the network around the function: no route out of its subnets.
        assert "socket 2 0\n" in answer.stdout


@pytest.mark.parametrize("lang", ["py", "bash", "js"])
def test_K2_nothing_is_reached_where_the_filter_is(sole: Room, lang: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answer = sole.run(lang, CONNECT[lang], args=(str(port),), wall_ms=20_000 if sole.filtered else 3_000)
    if sole.filtered:
        assert (answer.stdout, answer.code) == ("done\n", 0), answer
    else:
        assert answer.stdout.startswith("connected"), answer


def test_K4_nobody_around_a_program_is_touched_where_the_filter_is(sole: Room) -> None:
    if sole.filtered:
        answer = sole.python(attacks.MEDDLE, wall_ms=20_000)
        assert (answer.stdout, answer.code) == ("done\n", 0), answer
    else:
        assert sole.failure("py", attacks.MEDDLE, wall_ms=20_000).kind == "broken"
        last = sole.function.lines()[-1]
        assert (last["kind"], last["why"]) == ("retired", "the runner was given other limits")
    assert sole.bash("echo fine").stdout == "fine\n"


def test_K4_no_program_becomes_more_than_it_is(sole: Room) -> None:
    answer = sole.run("c", ESCALATE, wall_ms=20_000)
    achieved = set(answer.stdout.splitlines()) - {"done"}
    if sole.filtered:
        assert achieved == set(), answer
    else:
        assert {text for text in achieved if "keyctl" not in text and "key" not in text} == set(), answer
    assert answer.changes == ()


def test_A10_a_fork_bomb_is_bounded_and_over_with_its_run(sole: Room) -> None:
    bomb = sole.bash(":(){ :|:& };:; sleep 99", wall_ms=2_000, processes=200)
    assert bomb.reason in ("time", None)
    after = sole.bash("echo normal; echo /proc/[0-9]* | wc -w").stdout.split()
    assert after[0] == "normal"
    # The first process, the emulator, the function, the chain of two, the shell and its own subshell.
    assert int(after[1]) <= 8


def test_A17_memory_is_bounded(sole: Room) -> None:
    answer = sole.python("x = b'x' * (700 << 20)\nimport time; time.sleep(5)", memory_bytes=300 << 20, wall_ms=9_000)
    assert answer.reason == "memory", answer
    if sole.filtered:
        filled = sole.bash("head -c 60M /dev/zero > /dev/shm/f; sleep 5", memory_bytes=30 << 20, wall_ms=9_000)
        assert filled.reason == "memory", filled


def test_K20_the_log_has_nothing_of_a_program(sole: Room) -> None:
    forged = '{"event": "sandbox", "kind": "forged"}'
    code = f"echo '{forged}'; echo '{forged}' >&2; echo marker-in-code; touch $'marker\\nname' '{forged[:20]}'"
    assert sole.bash(code).code == 0
    log = sole.function.log()
    assert "marker" not in log
    assert "forged" not in log
    last = sole.function.lines()[-1]
    assert set(last) == {"event", "kind", "request_id", "run_id", "ms", "cold", "cold_ms"}
    assert (last["kind"], last["cold"]) == ("answered", False)


def test_a_missing_layer_that_is_required_refuses_to_run() -> None:
    with room("like lambda", WORKROOM_REQUIRED_LAYERS="clean,filter") as made:
        assert "`filter` is required and not active" in made.health()["trouble"]
        failed = made.failure("bash", "echo never")
        assert (failed.kind, "filter" in failed.why) == ("unavailable", True)


def test_an_environment_that_may_be_shared_is_not_taken_over() -> None:
    with room("like lambda", WORKROOM_ALONE="") as made:
        assert "WORKROOM_ALONE" in made.health()["trouble"]
        assert made.failure("bash", "echo never").kind == "unavailable"


def test_K2_what_a_program_forges_through_the_runtime_interface_is_no_answer() -> None:
    """Without the filter it can ask for the next event: that run is lost or as it was, and no other is harmed."""
    with room("like lambda") as made:
        made.bash("true")
        with contextlib.suppress(ExecutorFailed):
            answer = made.python(attacks.FORGE, args=(str(made.function.api),), wall_ms=10_000)
            assert answer.stdout.endswith("tried\n")
        for number in range(3):
            assert made.bash(f"echo {number}").stdout == f"{number}\n"
