"""Programs through the executor of one machine, all layers on (cases A, B, C6, D, E1, K by id)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.executor.port import ExecutorFailed
from shared.executor.wire import Entry
from tests.adversarial.runner_helpers import MIB, NAP, REQUIRED, Bench, bench, processes_of


@pytest.fixture(scope="module")
def room() -> Iterator[Bench]:
    with bench() as made:
        yield made


def test_every_required_layer_is_shown_active_by_its_probe(room: Bench) -> None:
    health = room.executor.health()
    assert health.ready, health.why
    assert {name for name, layer in health.layers.items() if layer.active} >= REQUIRED
    assert {name for name, layer in health.layers.items() if layer.required} == REQUIRED
    assert set(health.languages) == {
        "py", "js", "ts", "c", "cpp", "java", "php", "rs", "go", "d", "f90", "r", "bash",
    }  # fmt: skip
    assert health.languages["py"].present
    assert health.languages["bash"].present


def test_A2_background_child_does_not_hold_the_answer(room: Bench) -> None:
    begin = time.monotonic()
    answer = room.bash(f"sleep {NAP} & echo hi")
    assert time.monotonic() - begin < 5
    assert (answer.stdout, answer.code, answer.reason) == ("hi\n", 0, None)
    assert processes_of(NAP) == []


def test_a_program_may_open_its_streams_by_name(room: Bench) -> None:
    answer = room.bash("echo err > /dev/stderr; echo out > /dev/stdout; cat /dev/stdin; cat < /dev/stdin; echo $?")
    assert (answer.stdout, answer.stderr, answer.code) == ("out\n0\n", "err\n", 0)
    answer = room.python("print(repr(open('/dev/stdin').read())); open('/dev/stderr', 'w').write('e')")
    assert (answer.stdout, answer.stderr, answer.code) == ("''\n", "e", 0)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_A3_a_million_characters_on_one_stream(room: Bench, stream: str) -> None:
    answer = room.python(f"import sys; print('x'*1_000_000, file=sys.{stream})")
    assert answer.code == 0
    assert getattr(answer, stream) == "x" * 1_000_000 + "\n"
    assert not answer.stdout_cut
    assert not answer.stderr_cut


def test_A3_both_streams_interleaved(room: Bench) -> None:
    answer = room.python(
        "import sys\nfor i in range(5000):\n print('o'*99)\n print('e'*99, file=sys.stderr)\n", wall_ms=20_000
    )
    assert answer.code == 0
    assert answer.stdout == ("o" * 99 + "\n") * 5_000
    assert answer.stderr == ("e" * 99 + "\n") * 5_000


def test_A4_a_finite_program_that_prints_too_much_exits_with_its_code(room: Bench) -> None:
    answer = room.python("print('a'*10**7); raise SystemExit(4)")
    assert (answer.code, answer.reason, answer.stdout_cut) == (4, None, True)
    assert answer.stdout.startswith("aaaa")
    assert answer.stdout.endswith("aaa\n")
    assert f"[{10**7 + 1 - MIB} bytes of output left out]" in answer.stdout


def test_A4_an_endless_flood_is_stopped_and_says_why(room: Bench) -> None:
    answer = room.bash("yes", flood_bytes=4 * MIB)
    assert (answer.code, answer.reason, answer.stdout_cut) == (None, "output", True)
    assert answer.stdout.startswith("y\ny\n")
    assert answer.stderr.endswith(f"killed: output limit of {4 * MIB} bytes of one stream\n")


def test_A5_timed_out_with_what_it_printed_so_far(room: Bench) -> None:
    answer = room.python("print('step 1'); import time; time.sleep(99)", wall_ms=1_500)
    assert (answer.stdout, answer.code, answer.reason) == ("step 1\n", None, "time")
    assert answer.stderr.endswith("timed out after 1.5 s\n")
    assert 1_400 <= answer.wall_ms < 3_000


@pytest.mark.parametrize(("lang", "code", "exit_code"), [("py", "input()", 1), ("bash", "cat", 0)])
def test_A7_standard_input_is_at_its_end(room: Bench, lang: str, code: str, exit_code: int) -> None:
    answer = room.run(lang, code)
    assert answer.code == exit_code
    assert answer.wall_ms < 5_000
    assert ("EOFError" in answer.stderr) == (lang == "py")


def test_A11_a_failed_run_leaves_the_session_usable(room: Bench) -> None:
    assert room.bash("exit 3", "A11").code == 3
    assert room.bash("echo ok", "A11").stdout == "ok\n"


def test_A15_a_process_out_of_our_group_does_not_survive(room: Bench) -> None:
    answer = room.bash(f"setsid nohup sleep {NAP} >/dev/null 2>&1 & disown; echo started")
    assert answer.stdout == "started\n"
    assert processes_of(NAP) == []


def test_A17_more_memory_than_the_limit_is_killed_and_says_so(room: Bench) -> None:
    answer = room.python("x = bytearray(10**10)", memory_bytes=256 * MIB)
    if answer.code is None:
        assert answer.reason == "memory"
        assert "out of memory" in answer.stderr
    else:
        assert "MemoryError" in answer.stderr
    spread = room.python(
        "import os,time\nfor _ in range(8):\n"
        " if os.fork() == 0: x = b'x'*(64*2**20); time.sleep(1); os._exit(0)\n"
        "raise SystemExit(sum(os.wait()[1] != 0 for _ in range(8)))",
        memory_bytes=256 * MIB,
        wall_ms=20_000,
    )
    assert spread.reason == "memory"
    assert spread.stderr.endswith(
        f"killed: out of memory (limit {256 * MIB} bytes for all processes and /tmp together)\n"
    )


def test_A17_tmp_counts_as_memory(room: Bench) -> None:
    answer = room.bash("head -c 400000000 /dev/zero > /tmp/big && echo fits", memory_bytes=200 * MIB)
    assert answer.stdout == ""
    assert answer.reason == "memory" or answer.code != 0


def test_A17_eight_busy_threads_end_with_the_time(room: Bench) -> None:
    answer = room.bash("for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait", wall_ms=1_000)
    assert answer.reason == "time"
    assert room.bash("echo next").wall_ms < 2_000


def test_A10_a_fork_bomb_ends_and_the_next_run_is_normal(room: Bench) -> None:
    answer = room.bash(":(){ :|:& };:; sleep 99", "A10", wall_ms=2_000)
    assert answer.reason in ("time", None)
    after = room.bash("ps -e | wc -l", "A10")
    assert int(after.stdout) < 8


@pytest.mark.parametrize(
    ("code", "text"),
    [(r"printf '\377\376\0ok'", "\ufffd\ufffd\0ok"), (r"printf 'a\0b'", "a\0b"), ("echo π🤣", "π🤣\n")],
)
def test_B1_B2_any_bytes_of_output_are_answered(room: Bench, code: str, text: str) -> None:
    assert room.bash(code).stdout == text


def test_the_program_is_byte_for_byte_and_not_in_the_workspace(room: Bench) -> None:
    code = 'cat -A "$0" | head -3; echo; find /mnt/data; exit 0\n\t\r\nπ \\ \' " $(id)\n\n'
    answer = room.bash(code)
    assert answer.stdout.endswith("/mnt/data\n")
    assert answer.stdout.startswith('cat -A "$0" | head -3; echo; find /mnt/data; exit 0$\n^I^M$\nM-OM-^@ \\')
    assert answer.changes == ()


def test_arguments_reach_the_program_unchanged(room: Bench) -> None:
    args = ["-c", "--help", "a b", "$(id)", "", "'q'", "π"]
    answer = room.python("import sys, json; print(json.dumps(sys.argv[1:]))", args=args)
    assert json.loads(answer.stdout) == args


def test_C6_odd_file_names_pass_through_unharmed(room: Bench) -> None:
    names = ["-rf", "--help", "a b", "$(id)", "`id`", "'q'.txt", "a\nb", "\\", "🤣.txt", "\udcff"]
    made = room.python(f"for n in {names!r}: open(n,'w').write('x')", "C6")
    assert {entry.path for entry in made.changes} == set(names)
    assert room.python(f"import os; print(sorted(os.listdir())==sorted({names!r}))", "C6").stdout == "True\n"
    gone = room.bash("rm -rf -- ./*", "C6")
    assert set(gone.deleted) == set(names)


def test_D4_D6_nested_copied_and_backdated_files_are_found(room: Bench) -> None:
    room.python("open('in.csv','w').write('1')", "D6")
    answer = room.bash(
        "mkdir -p x/y; echo z > x/y/z.txt; cp -p in.csv out.csv; touch -d 2000-01-01 new.txt\n"
        "echo t > t; touch -d 1990-01-01 t; tar cf t.tar t; rm t; tar xf t.tar", "D6"
    )  # fmt: skip
    assert {entry.path for entry in answer.changes} == {"x", "x/y", "x/y/z.txt", "out.csv", "new.txt", "t", "t.tar"}
    again = room.bash("true", "D6")
    assert (again.changes, again.deleted) == ((), ())


def test_D13_a_restore_that_cannot_be_whole_runs_nothing(room: Bench, tmp_path: Path) -> None:
    good, bad = room.file("good", b"good"), room.file("bad", b"bad!")
    Path(room.objects.grant_read(bad.blob, seconds=9).url.removeprefix("file:")).write_bytes(b"evil")
    with pytest.raises(ExecutorFailed) as failed:
        room.bash("touch ran", "D13", manifest=[good, bad])
    assert failed.value.kind == "broken"
    missing = Entry("x", "file", 0o644, size=1, sha256="0" * 64, blob="in/never")
    with pytest.raises(ExecutorFailed):
        room.bash("touch ran", "D13", manifest=[good, missing])
    answer = room.bash("ls -A", "D13", manifest=[good])
    assert answer.stdout == "good\n"


def test_D14_links_fifos_and_hard_links_are_there_in_the_next_run(room: Bench) -> None:
    made = room.bash("echo a > a; ln a b; mkfifo p; ln -s $PWD/a abs; ln -s nowhere dangling; mkdir -m 711 e", "D14")
    assert made.code == 0
    held = room.bash("stat -c '%F %h %n' *; cat abs", "D14")
    elsewhere = room.bash("stat -c '%F %h %n' *; cat abs", "D14-b", manifest=room.manifests["D14"])
    assert held.stdout == elsewhere.stdout
    assert held.stdout == (
        "regular file 1 a\nsymbolic link 1 abs\nregular file 1 b\n"
        "symbolic link 1 dangling\ndirectory 2 e\nfifo 1 p\na\n"
    )


def test_D20_the_next_run_has_the_original_of_a_read_only_file(room: Bench) -> None:
    original = room.file("f", b"original", mode=0o444, read_only=True)
    answer = room.bash("chmod +w f; echo x > f; cat f", "D20-x", manifest=[original])
    assert [entry.path for entry in answer.changes] == ["f"]
    assert room.bash("cat f; stat -c %a f", "D20-x", manifest=[original]).stdout == "original444\n"


def test_D22_a_large_file_is_delivered_or_named_and_the_run_answers(room: Bench) -> None:
    code = "print('ok'); open('big.bin','wb').write(bytes(30*2**20))"
    kept = room.python(code)
    assert (kept.code, kept.stdout, kept.lost) == (0, "ok\n", ())
    assert room.body(kept, "big.bin") == bytes(30 * 2**20)
    lost = room.python(code, writes=0)
    assert (lost.code, lost.stdout) == (0, "ok\n")
    assert lost.lost == (("big.bin", f"the outputs of this run exceed {3 * MIB} bytes"),)
    small = room.bash("truncate -s 2000001 sparse", workspace_bytes=2_000_000)
    assert small.reason in (None, "workspace_bytes")
    assert small.lost == (("sparse", "the workspace would hold more than 2000000 bytes"),)


def test_E1_links_to_secrets_are_text_and_nothing_is_read_through_them(room: Bench) -> None:
    answer = room.bash("ln -s /proc/self/environ out.txt; ln -s /etc outd; ln -s / root", "E1")
    assert {(entry.path, entry.kind, entry.target) for entry in answer.changes} == {
        ("out.txt", "link", "/proc/self/environ"), ("outd", "link", "/etc"), ("root", "link", "/"),
    }  # fmt: skip
    assert answer.pack == b""


@pytest.mark.parametrize(
    ("code", "limit", "reason", "line"),
    [
        ("for i in $(seq 99); do head -c 3000000 /dev/zero > f$i; done; sleep 9", {"workspace_bytes": 20_000_000},
         "workspace_bytes", "killed: workspace limit of 20000000 bytes\n"),
        ("for i in $(seq 9999); do : > f$i; done; sleep 9", {"workspace_entries": 500},
         "workspace_entries", "killed: workspace limit of 500 entries\n"),
        ("exec head -c 9000000 /dev/zero > big", {"file_bytes": 1_000_000},
         "file_bytes", "killed: a file reached the limit of 1000000 bytes\n"),
    ],
)  # fmt: skip
def test_limits_bite_during_the_run_and_say_so(
    room: Bench, code: str, limit: dict[str, int], reason: str, line: str
) -> None:
    answer = room.bash(code, "", **limit)
    assert (answer.reason, answer.code) == (reason, None)
    assert answer.stderr.endswith(line)
    assert answer.wall_ms < 6_000


def test_K1_nothing_of_the_host_or_of_us_is_seen(room: Bench) -> None:
    marker = f"canary-{os.urandom(8).hex()}"
    os.environ["AWS_SECRET_ACCESS_KEY"] = marker
    try:
        answer = room.bash(
            "env; cat /proc/*/environ /proc/1/maps /proc/$PPID/environ 2>&1 | tr '\\0' '\\n'; ls -l /proc/self/fd\n"
            "cat /etc/shadow /root/* /proc/1/root/etc/hostname 2>&1; ls /root /home /run /var/lib/workroom 2>&1"
        )
    finally:
        del os.environ["AWS_SECRET_ACCESS_KEY"]
    assert marker not in answer.stdout
    assert not {"root:x:", "root:*:", "root:!:", "root:$"} & {line[:7] for line in answer.stdout.splitlines()}
    assert "shadow: Permission denied" in answer.stdout or "shadow: No such file" in answer.stdout
    assert "AWS" not in answer.stdout
    assert str(room.executor._arguments[5]) not in answer.stdout
    pid = room.executor.pid
    assert pid is not None
    assert "AWS" not in Path(f"/proc/{pid}/environ").read_text()
    host = room.bash(f"cat /proc/{pid}/environ /proc/{os.getpid()}/environ")
    assert (host.stdout, host.code) == ("", 1)


def test_K2_no_socket_of_a_network_can_be_made(room: Bench) -> None:
    answer = room.python(
        "import socket\nfor n in ('AF_INET','AF_INET6','AF_NETLINK','AF_PACKET','AF_VSOCK'):\n"
        " try: socket.socket(getattr(socket,n)); print(n)\n except OSError: pass\nprint('end')"
    )
    assert answer.stdout == "end\n"


def test_K3_a_deaf_daemon_is_dead_before_the_answer_and_leaves_nothing(room: Bench) -> None:
    code = (
        "import os,signal,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n"
        "  [signal.signal(n, signal.SIG_IGN) for n in (1,2,15)]\n  time.sleep(0.3); open('/tmp/left','w')\n"
        "  open('/mnt/data/late','w')\n  time.sleep(99)\n os._exit(0)\nopen('/tmp/x','w'); open('/dev/shm/x','w')"
    )
    room.python(code, "K3")
    time.sleep(0.5)
    answer = room.bash("ls -A /tmp /dev/shm /mnt/data; ps -e | wc -l", "K3")
    assert answer.stdout.split() == ["/dev/shm:", "/mnt/data:", "/tmp:", "home", answer.stdout.split()[-1]]
    assert int(answer.stdout.split()[-1]) < 8


def test_K4_the_supervisor_cannot_be_signalled(room: Bench) -> None:
    answer = room.python(
        "import os\nfor p in (1, os.getppid()):\n for s in (9, 19):\n  try: os.kill(p, s)\n  except OSError: pass\n"
        "try: os.setpriority(os.PRIO_PROCESS, 1, 19)\nexcept OSError: pass\nprint('alive')"
    )
    assert (answer.stdout, answer.code, answer.reason) == ("alive\n", 0, None)


def test_K8_swapping_a_folder_for_a_link_saves_nothing_from_outside(room: Bench) -> None:
    code = (
        "mkdir -p d; for i in 1 2 3 4 5 6 7 8 9; do echo mine > d/passwd$i; done; ln -s /etc l\n"
        "(while :; do mv -T d t; mv -T l d; mv -T d l; mv -T t d; done) 2>/dev/null &\nsleep 0.3; cp /etc/passwd ok"
    )
    for _ in range(3):
        answer = room.bash(code)
        bodies = {entry.path: room.body(answer, entry.path) for entry in answer.changes if entry.kind == "file"}
        assert b"root:" in bodies.pop("ok")
        assert all(body == b"mine\n" for body in bodies.values())


def test_K21_the_environment_is_the_table_of_the_language_and_no_more(room: Bench) -> None:
    answer = room.python("import os; print(*sorted(os.environ))")
    names = set(answer.stdout.split())
    assert names.isdisjoint(
        {"LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "MALLOC_ARENA_MAX"}
    )
    assert {"HOME", "TMPDIR", "TZ", "LANG"} <= names


def test_K22_what_lies_in_a_workspace_does_not_reach_the_runner(room: Bench) -> None:
    evil = "import os; open('/mnt/data/evil','w')"
    made = room.python(
        f"[open(n,'w').write({evil!r}) for n in ('json.py','sitecustomize.py','select.py','hashlib.py')]", "K22"
    )
    assert len(made.changes) == 4
    answer = room.bash("ls", "K22")
    assert answer.stdout == "hashlib.py\njson.py\nselect.py\nsitecustomize.py\n"


def test_cancel_stops_a_run_at_once(room: Bench) -> None:
    threading.Timer(0.4, lambda: room.executor.cancel("to-cancel")).start()
    begin = time.monotonic()
    answer = room.bash(f"echo begun; sleep {NAP}", run_id="to-cancel")
    assert time.monotonic() - begin < 5
    assert (answer.reason, answer.stdout) == ("stopped", "begun\n")
    assert processes_of(NAP) == []
    room.executor.cancel("never-known")


def test_sixteen_at_once_each_with_its_own_user(room: Bench) -> None:
    answers: dict[int, str] = {}

    def one(number: int) -> None:
        answer = room.bash(f"echo {number} > f; sleep 0.2; cat f; ls -A", f"sixteen-{number}")
        answers[number] = answer.stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {number: f"{number}\nf\n" for number in range(16)}


def test_large_and_many_outputs_come_back_whole_and_are_restored(room: Bench) -> None:
    made = room.python(
        "import os\nfor i in range(3): open(f'big{i}','wb').write(bytes([i])*(2*2**20))\n"
        "for i in range(200): open(f's{i}','wb').write(bytes([i])*30000)", "large", writes=2
    )  # fmt: skip
    assert made.lost == ()
    assert room.body(made, "big2") == b"\2" * (2 * MIB)
    again = room.bash("cat big* s* | sha256sum", "elsewhere", manifest=room.manifests["large"])
    assert room.bash("cat big* s* | sha256sum", "large").stdout == again.stdout
    touched = room.bash("touch -d 2001-01-01 big0", "large")
    assert [entry.path for entry in touched.changes] == ["big0"]
    assert touched.pack == b""


def test_a_workspace_that_its_program_locked_or_spoilt_is_usable_again(room: Bench) -> None:
    room.bash("echo 1 > f; mkdir d; chmod 000 d; chmod 000 .", "spoilt")
    assert room.bash("cat f; stat -c %a d .", "spoilt").stdout == "1\n0\n755\n"
    room.bash("mkdir e; command -v setfacl && setfacl -d -m u::---,g::---,o::--- . e; echo 2 > g", "spoilt")
    manifest = [*room.manifests["spoilt"], room.file("e/new", b"new", mode=0o777), room.file("top", b"top", mode=0o640)]
    assert room.bash("cat f g e/new top; stat -c %a e/new top", "spoilt", manifest=manifest).code == 0


def test_a_folder_in_which_restoring_fails_is_replaced(room: Bench) -> None:
    room.bash("echo 1 > f", "replaced")
    held = next(Path(room.executor._arguments[5]).glob("held/*/data/f"))
    # Behind the runner's back: the folder is not as the snapshot has it, so making `f/x` there fails.
    folder = held.parent
    held.unlink()
    (folder / "other").mkdir()
    manifest = [*room.manifests["replaced"], room.file("other", b"o")]
    assert room.bash("cat f other", "replaced", manifest=manifest).stdout == "1\no"


def test_names_beyond_what_a_message_holds_are_lost_not_the_run(room: Bench) -> None:
    made = "import os\nos.mkdir('d')\nfor i in range(3500): open(f'd/{i:05}'+chr(1)*240,'w').close()"
    answer = room.python(made, "names", wall_ms=30_000)
    assert answer.code == 0
    assert 2_500 < len(answer.changes) < 3_501
    assert any(f"more than {8 * MIB} bytes" in why for _, why in answer.lost)
    kept = len(answer.changes) - 1
    assert room.bash("ls d | wc -l", "names").stdout == f"{kept}\n"
