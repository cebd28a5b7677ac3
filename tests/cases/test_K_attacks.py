# ruff: noqa: E501 (programs stand as they are written)
"""cases.md K1 to K8: attacks of programs against the service that runs them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.cases import attacks
from tests.cases.door import Service, at_once, until

MARKER = "k1-marker-of-another-session"


def _host_paths(service: Service) -> list[str]:
    """What this machine holds and no program may see: our data, our processes, the host's secrets."""
    data = [str(path) for path in sorted(service.folder.rglob("*"))]
    work = [path for path in data if "/work/" in path]
    own = ("environ", "mem", "maps", "fd", "cwd", "root", "cmdline", "task")
    processes = [f"/proc/{pid}/{name}" for pid in (service.pid, service.executor_pid(), os.getpid()) for name in own]
    host = [
        "/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/machine-id", "/root/.ssh", "/root/.cache", "/home/user",
        "/var/run/docker.sock", "/run/docker.sock", "/run/systemd", "/var/lib/docker", "/var/log/syslog", "/boot/grub",
        "/sys/kernel/security", "/sys/fs/cgroup", "/dev/mem", "/dev/kmsg", "/dev/disk", "/lost+found", "/.dockerenv",
        str(Path(__file__)), str(Path(__file__).parents[2]), "/proc/kcore", "/proc/kallsyms_", "/proc/sched_debug",
        "/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd", "/proc/1/cwd", "/proc/1/root", "/proc/1/exe",
        "/proc/1/task/1/environ", "/proc/1/map_files", "/proc/1/stack", "/proc/1/auxv",
    ]  # fmt: skip
    return [str(service.folder), *data[:200], *work[:200], *processes, *host]


def test_K1_nothing_of_ours_and_of_the_host_is_read(service: Service) -> None:
    secret = service.run("bash", f"echo {MARKER} > kept", runtime_session_hint="k1-other")
    paths = _host_paths(service)
    assert any(path.endswith("dev.key") for path in paths)
    assert any("/held/" in path for path in paths)
    ran = service.run("py", attacks.READ_WHAT_IS_NAMED, args=paths)
    assert (ran.stdout, ran.stderr, ran.code) == ("", "", 0), ran
    service.run("bash", "ls -A /root /home /run /srv /media; cat /etc/hostname").expect(
        "/home:\n\n/media:\n\n/root:\n\n/run:\nworkroom\n\n/srv:\nworkroom\n"
    )
    service.run("py", attacks.SEARCH, args=[MARKER[::-1]]).expect("")
    assert "found in /workspace/kept" in service.run("py", attacks.SEARCH, secret.session, args=[MARKER[::-1]]).stdout


def test_K1_no_process_shows_its_secrets(service: Service) -> None:
    ran = service.run("py", attacks.READ_EVERY_PROCESS).expect_end(0)
    assert ran.stdout == "[0, 1, 2] ['/dev/null', 'pipe', 'pipe']\n", ran
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("bash", 'cat /proc/*/environ /proc/$PPID/mem /proc/$PPID/maps 2>/dev/null | tr "\\0" "\\n" | sort -u; ls -l /proc/self/fd'),
        ("js", "const fs = require('fs');\nfor (const p of fs.readdirSync('/proc')) try { console.log(fs.readFileSync(`/proc/${p}/environ`, 'latin1')) } catch {}"),
        ("php", "<?php foreach (glob('/proc/*/environ') as $f) echo @file_get_contents($f), \"\\n\"; echo @file_get_contents('/etc/shadow');"),
        ("go", 'package main\nimport ("fmt"; "os"; "path/filepath")\nfunc main() { l, _ := filepath.Glob("/proc/*/environ"); for _, f := range l { b, _ := os.ReadFile(f); fmt.Println(string(b)) } }\n'),
    ],
)  # fmt: skip
def test_K1_in_other_languages(service: Service, lang: str, code: str) -> None:
    ran = service.run(lang, code)
    text = ran.stdout + ran.stderr
    for secret in (service.key, service.other_key, "canary", "root:", str(service.folder), "AWS_", "WORKROOM_CACHE"):
        assert secret not in text, secret


def test_K1_the_state_of_another_run_is_not_seen_while_it_goes_on(service: Service) -> None:
    """Two programs at once, of two projects: neither sees a process, a file or shared memory of the other."""
    one = "echo $$ > mine; echo x > /tmp/mine; echo x > /dev/shm/mine; exec 3<>/tmp/mine; sleep 0.6; echo one"
    two = "sleep 0.3; ls /tmp /dev/shm; echo /proc/[0-9]*; ls; cat /proc/loadavg > /dev/null; echo two"
    first, second = at_once(
        [partial(service.run, "bash", one), partial(service.run, "bash", two, key=service.other_key)]
    )
    first.expect("one\n", ["mine"])
    second.expect("/dev/shm:\n\n/tmp:\nhome\n/proc/1 /proc/2\ntwo\n")


def test_K2_no_socket_but_those_of_the_run_itself(service: Service) -> None:
    service.run("c", attacks.SOCKETS).expect("done\n")


@pytest.mark.parametrize("lang", attacks.CONNECT)
def test_K2_nothing_is_reached_from_any_language(service: Service, lang: str) -> None:
    ran = service.run(lang, attacks.CONNECT[lang], args=[str(service.port)], timeout=20_000).expect_end(0)
    assert ran.stdout == "done\n", ran
    assert ran.seconds < 15


def test_K2_the_other_table_of_system_calls_is_shut(service: Service) -> None:
    """socket(AF_INET) through int 0x80, where the filter of the usual table does not look."""
    code = (
        "#include <stdio.h>\nint main(void) {\n  int r;\n"
        '  __asm__ volatile ("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(1), "d"(0) : "memory");\n'
        '  printf("%d\\n", r >= 0);\n}\n'
    )
    ran = service.run("c", code)
    assert ran.stdout in ("", "0\n"), ran
    assert ran.code in (None, 0)


def test_K3_a_deaf_daemon_is_dead_before_the_answer(service: Service) -> None:
    started = service.run("py", attacks.DAEMON, timeout=15_000)
    assert (started.stdout, started.code) == ("started\n", 0), started
    listed = set(started.names)
    assert listed <= {"left", "late"}
    before = service.rows(started.session)
    look = "rm -f left late; sleep 0.4; ls -A; ls -A /tmp /dev/shm /tmp/home; echo /proc/[0-9]*"
    ran = service.run("bash", look, started.session)
    # The shell, the first process and the one that was in `ls` or `sleep`: nobody else.
    assert ran.stdout == "/dev/shm:\n\n/tmp:\nhome\n\n/tmp/home:\n/proc/1 /proc/2\n", ran
    assert {row["size"] for row in before} <= {0, 1}
    assert service.rows(started.session) == []


def test_K3_a_daemon_does_not_reach_another_session(service: Service) -> None:
    """The next program of another session may get the same host user or slot, never what another left there."""
    for _ in range(3):
        service.run("py", attacks.DAEMON, timeout=15_000)
        service.run("bash", "sleep 0.2; ls -A . /tmp /dev/shm; echo /proc/[0-9]*").expect(
            ".:\n\n/dev/shm:\n\n/tmp:\nhome\n/proc/1 /proc/2\n"
        )


def test_K4_the_supervisor_is_not_touched(service: Service) -> None:
    """By its own id, those of its threads, of the service and of the executor, and of the first in the name space."""
    threads = [int(path.name) for path in Path(f"/proc/{service.executor_pid()}/task").iterdir()]
    targets = [1, service.pid, service.executor_pid(), os.getpid(), *threads[:8], *range(100, 400, 7)]
    ran = service.run("c", attacks.MEDDLE, args=[str(pid) for pid in targets])
    assert (ran.stdout, ran.code, ran.signal, ran.status) == ("done\n", 7, None, None), ran
    service.run("bash", "echo fine", ran.session).expect("fine\n")


@pytest.mark.parametrize(
    "code",
    [
        "kill -9 -1; echo alive; kill -STOP 1; kill -9 1; kill -9 $PPID; echo done",
        "for t in /proc/*/task/*; do kill -9 ${t##*/} 2>/dev/null; done; echo never",
        "renice 19 1; renice 19 $PPID; chrt -p -i 0 1; taskset -p 1 1; ionice -c 3 -p 1; echo 1000 > /proc/1/oom_score_adj; echo done",
        "gdb -p 1 2>/dev/null; strace -p 1 2>/dev/null; echo done",
        "exec 2>/dev/null; (sleep 0.2; kill -CONT $$)& kill -STOP $$; echo done",
    ],
)
def test_K4_from_a_shell(service: Service, code: str) -> None:
    ran = service.run("bash", code, timeout=3_000)
    assert ran.seconds < 15
    assert ran.stdout.endswith("done\n") or ran.signal is not None or ran.status == "TO", ran
    service.run("bash", "echo fine", ran.session).expect("fine\n")


def test_K4_no_program_becomes_more_than_it_is(service: Service) -> None:
    ran = service.run("c", attacks.ESCALATE)
    assert (ran.stdout, ran.code, ran.files) == ("done\n", 0, []), ran
    show = "id -u; grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; find / -xdev -type f -perm /6000 2>/dev/null | head"
    shown = service.run("bash", show).stdout.splitlines()
    assert shown[0] == "1000"
    status = dict(line.split(":\t") for line in shown[1:6])
    assert status["CapEff"] == status["CapPrm"] == "0" * 16
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert len(shown) == 6, shown


def test_K4_a_program_is_nobody_on_this_machine(service: Service) -> None:
    """Seen from outside: its user is one of the block of the executor, never root, and its files are that user's."""
    seen: set[int] = set()

    def look() -> None:
        def users() -> set[int]:
            return {
                entry.stat().st_uid
                for entry in Path("/proc").iterdir()
                if entry.name.isdigit() and b"sleep\0001.71828" in _cmdline(entry)
            }

        assert until(lambda: bool(users()))
        seen.update(users())

    ran, _ = at_once([partial(service.run, "bash", "echo x > f; sleep 1.71828"), look])
    ran.expect("", ["f"])
    assert len(seen) == 1
    assert seen <= set(range(40_000, 60_000))


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("target", ["/etc", "host", "/proc/1", "/", "/usr/lib/workroom"])
def test_K8_a_folder_that_becomes_a_link_shows_and_changes_nothing_outside(
    service: Service, target: str, tmp_path: Path
) -> None:
    """Stopped in the middle of the exchange, twice, and restored after each."""
    outside = service.folder / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "shadow").write_text("root:outside\n")
    aim = str(outside) if target == "host" else target
    ran = service.run("py", attacks.SWAP, args=[aim, "9"], timeout=700)
    assert (ran.stdout, ran.status) == ("swapping\n", "TO"), ran
    session = ran.session
    for _ in range(2):
        for row in service.rows(session):
            assert service.read(session, row["id"]) == b"mine", row
            assert row["size"] == 4
        assert set(service.names(session)) <= {"d/f", "l/f", "g", "m", "n"}
        service.run(
            "bash",
            "for f in *; do [ -L $f ] && readlink $f; done | sort -u | wc -l; rm -rf d l; mkdir d; echo -n mine > d/f",
            session,
        ).expect_end(0)
    assert sorted(path.name for path in outside.iterdir()) == ["shadow"]
    assert (outside / "shadow").read_text() == "root:outside\n"


def test_K8_a_folder_of_the_manifest_replaced_by_a_link_is_not_written_through(small: Service) -> None:
    """Restoring after the held folder is gone: the files go where the manifest says, under no link."""
    session = small.upload("d/f", b"1")
    ran = small.run("bash", "mv d e; ln -s e d; ln -s /tmp t; echo 2 > t/x; echo 3 > d/g", session).expect_end(0)
    assert (ran.names, ran.deleted) == (["e/f", "e/g"], ["d/f"])
    small.kill_executor()
    small.run("bash", "readlink d t; cat d/g; ls /tmp; rm d; mkdir d; echo 4 > d/f", session).expect(
        "e\n/tmp\n3\nhome\n", ["d/f"]
    )
    small.kill_executor()
    small.run("bash", "cat d/f e/f; ls e", session).expect("4\n1f\ng\n")
