# ruff: noqa: E501 (programs stand as they are written)
"""cases.md K: attacks against the running service, each a program or a request that a caller may send."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.cases import attacks, programs
from tests.cases.door import CANARIES, LANGS, Service, at_once, environment, until, workroom

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
    service.run("bash", "ls -A /root /home /run /srv /media; cat /etc/hostname").ok(
        "/home:\n\n/media:\n\n/root:\n\n/run:\nworkroom\n\n/srv:\nworkroom\n"
    )
    service.run("py", attacks.SEARCH, args=[MARKER[::-1]]).ok("")
    assert "found in /workspace/kept" in service.run("py", attacks.SEARCH, secret.session, args=[MARKER[::-1]]).stdout


def test_K1_no_process_shows_its_secrets(service: Service) -> None:
    ran = service.run("py", attacks.READ_EVERY_PROCESS).ended(0)
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
    first.ok("one\n", ["mine"])
    second.ok("/dev/shm:\n\n/tmp:\nhome\n/proc/1 /proc/2\ntwo\n")


def test_K2_no_socket_but_those_of_the_run_itself(service: Service) -> None:
    service.run("c", attacks.SOCKETS).ok("done\n")


@pytest.mark.parametrize("lang", attacks.CONNECT)
def test_K2_nothing_is_reached_from_any_language(service: Service, lang: str) -> None:
    ran = service.run(lang, attacks.CONNECT[lang], args=[str(service.port)], timeout=20_000).ended(0)
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
        service.run("bash", "sleep 0.2; ls -A . /tmp /dev/shm; echo /proc/[0-9]*").ok(
            ".:\n\n/dev/shm:\n\n/tmp:\nhome\n/proc/1 /proc/2\n"
        )


def test_K4_the_supervisor_is_not_touched(service: Service) -> None:
    """By its own id, those of its threads, of the service and of the executor, and of the first in the name space."""
    threads = [int(path.name) for path in Path(f"/proc/{service.executor_pid()}/task").iterdir()]
    targets = [1, service.pid, service.executor_pid(), os.getpid(), *threads[:8], *range(100, 400, 7)]
    ran = service.run("c", attacks.MEDDLE, args=[str(pid) for pid in targets])
    assert (ran.stdout, ran.code, ran.signal, ran.status) == ("done\n", 7, None, None), ran
    service.run("bash", "echo fine", ran.session).ok("fine\n")


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
    service.run("bash", "echo fine", ran.session).ok("fine\n")


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
    ran.ok("", ["f"])
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
        ).ended(0)
    assert sorted(path.name for path in outside.iterdir()) == ["shadow"]
    assert (outside / "shadow").read_text() == "root:outside\n"


def test_K8_a_folder_of_the_manifest_replaced_by_a_link_is_not_written_through(small: Service) -> None:
    """Restoring after the held folder is gone: the files go where the manifest says, under no link."""
    session = small.upload("d/f", b"1")
    ran = small.run("bash", "mv d e; ln -s e d; ln -s /tmp t; echo 2 > t/x; echo 3 > d/g", session).ended(0)
    assert (ran.names, ran.deleted) == (["e/f", "e/g"], ["d/f"])
    small.kill_executor()
    small.run("bash", "readlink d t; cat d/g; ls /tmp; rm d; mkdir d; echo 4 > d/f", session).ok(
        "e\n/tmp\n3\nhome\n", ["d/f"]
    )
    small.kill_executor()
    small.run("bash", "cat d/f e/f; ls e", session).ok("4\n1f\ng\n")


INCLUDES = [
    ("c", '#include "@"\nint main(void) {}\n'),
    (
        "c",
        '#include <stdio.h>\n__asm__(".section .rodata\\nx: .incbin \\"@\\"\\ny: .byte 0\\n.text");\nextern char x[], y[];\nint main(void) { fwrite(x, 1, y - x, stdout); }\n',
    ),
    ("cpp", '#include "@"\nint main() {}\n'),
    ("rs", 'fn main() { print!("{}", String::from_utf8_lossy(include_bytes!("@"))); }\n'),
    ("rs", 'const S: &str = include_str!("@");\nfn main() { print!("{S}"); }\n'),
    ("d", 'import std.stdio;\nvoid main() { write(import("@")); }\n'),
    ("f90", "program p\ninclude '@'\nend program\n"),
    (
        "go",
        'package main\n\nimport (\n\t_ "embed"\n\t"fmt"\n)\n\n//go:embed @\nvar s string\n\nfunc main() { fmt.Print(s) }\n',
    ),
]


@pytest.mark.parametrize("number", range(len(INCLUDES)))
def test_K10_a_compiler_sees_what_the_program_sees(service: Service, number: int) -> None:
    lang, code = INCLUDES[number]
    for path in (
        "/proc/self/environ",
        "/etc/shadow",
        str(service.data / "dev.key"),
        "/proc/1/environ",
        f"/proc/{service.pid}/environ",
    ):
        ran = service.run(lang, code.replace("@", path), timeout=10_000)
        text = ran.stdout + ran.stderr
        for secret in (service.key, "canary", "root:", "AWS_", "WORKROOM_CACHE", "WORKROOM_DATA"):
            assert secret not in text, (path, secret)
        assert ran.files == []
        if path != "/proc/self/environ":
            assert ran.code not in (0, None), (path, ran)


def test_K10_a_compiler_s_plugins_scripts_and_settings_come_from_no_workspace(service: Service) -> None:
    """Names that tools look for by themselves: none of them runs or changes the build of a hello."""
    session = service.run(
        "bash",
        "mkdir -p .cargo bin; for n in cc1 as ld mold collect2 rustc go gcc java; do printf '#!/bin/sh\\necho hijacked; exit 1\\n' > $n; chmod +x $n; cp $n bin; done; printf '[build]\\nrustc = \"/mnt/data/rustc\"\\n' > .cargo/config.toml; echo 'flags=-bad' > dmd.conf; cp dmd.conf ldc2.conf; echo '-bad' > JDK_JAVA_OPTIONS; echo @bad > .gccrc",
    ).session
    for lang in ("c", "cpp", "rs", "d", "f90", "go", "java"):
        service.run(lang, programs.HELLO[lang], session).ok("hello\n")


def test_K14_no_operation_runs_without_a_valid_credential(service: Service) -> None:
    """Every published address with no, a wrong, a revoked-looking and an expired key: 401, one body, nothing read."""
    expired = service.make_key("dev", "--expires-in-s", "1")
    service.run("bash", "sleep 1.1")
    document = service.ask("GET", "/openapi.json", key="").json()
    session = service.upload("f", b"x")
    free = {"/v1/health", "/v1/exec/health", "/openapi.json", "/", "/docs"}
    bodies: set[bytes] = set()
    tried = 0
    for path, item in document["paths"].items():
        for method in item:
            if method not in ("get", "post", "put", "delete") or path in free or path.startswith("/docs"):
                continue
            if "/grants/" in path:
                continue  # its token is the credential: test_K7 of the wire suite
            target = path.replace("{session_id}", session).replace("{file_id}", "f").replace("{run_id}", "A" * 21)
            target = target.replace("{upload_id}", "A" * 21)
            for headers in (
                {},
                {"X-API-Key": "wrong"},
                {"X-API-Key": service.key[:-2]},
                {"X-API-Key": expired},
                {"Authorization": f"Bearer {expired}"},
                {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
                {"X-API-Key": service.key, "Authorization": f"Bearer {service.other_key}"},
            ):
                tried += 1
                body = b'{"lang": "bash", "code": "echo ran"}' if method == "post" else b""
                answer = service.raw(
                    method.upper(), target, headers=headers | {"Content-Type": "application/json"}, body=body
                )
                assert answer.startswith(b"HTTP/1.1 401 "), (method, path, headers, answer)
                bodies.add(answer.partition(b"\r\n\r\n")[2])
    assert tried > 100
    assert len(bodies) == 1, bodies
    assert json.loads(bodies.pop())["error"] == "unauthorized"
    assert service.names(session) == ["f"]


def test_K14_through_the_command_and_tools(service: Service, tmp_path: Path) -> None:
    program = tmp_path / "p.sh"
    program.write_text("echo ran\n")
    for key, code in ((service.key, 0), ("wrong", None), (service.make_key("dev", "--expires-in-s", "1"), None)):
        if code is None:
            service.run("bash", "sleep 1.1")
        env = environment(tmp_path) | {"WORKROOM_URL": service.url, "WORKROOM_KEY": key}
        done = subprocess.run(
            [workroom(), "run", str(program)], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert ("ran" in done.stdout) == (code == 0), done
        assert (done.returncode == 0) == (code == 0), done
        assert key not in done.stdout + done.stderr
    assert service.tool("exec_run", {"lang": "bash", "code": "echo ran"}, key="wrong").status_code == 401


FORGED = '\n{"time": "2026-01-01T00:00:00.000+00:00", "event": "error", "level": "ERROR", "kind": "forged-line"}\n'


SERVER_WORDS = (
    "WARNING uvicorn.error Invalid HTTP request received.",
    "WARNING uvicorn.error Unsupported upgrade request.",
    "WARNING uvicorn.error No supported WebSocket library detected. Please use \"pip install 'uvicorn[standard]'\","
    " or install 'websockets' or 'wsproto' manually.",
)
"""What the HTTP server says of requests that are none, without a part of them."""


def test_K20_the_log_holds_nothing_of_a_caller_and_cannot_be_forged(service: Service) -> None:
    secret = "k20-s3cr3t"
    code = f"import sys\nprint({FORGED!r} + '{secret}')\nprint({FORGED!r} + '{secret}', file=sys.stderr)\n"
    code += f"open('x\\n{secret}.txt', 'w').write('{secret}')\nopen('''y{FORGED.strip().replace('/', '')}''', 'w').close()\n1/0\n"
    ran = service.run("py", code, args=[secret + FORGED], user_id=secret)
    assert len(ran.files) == 2, ran
    service.run("bash", f"{secret} \n{FORGED}; kill -9 $$")
    service.run("c", f'#error {secret}\n#include "{secret}"\n')
    service.run("py", f"import time\nprint('{secret}')\ntime.sleep(9)", timeout=500)
    for row in ran.files:
        service.read(ran.session, row["id"])
        service.read(ran.session, row["name"])
    hostile = secret + FORGED.strip()
    service.upload(f"{secret}.csv", secret.encode(), ran.session)
    service.ask("GET", f"/v1/exec/download/{ran.session}/{secret}%0A{secret}")
    service.ask(
        "GET", f"/v1/{secret}?q={secret}", headers={"X-Request-ID": secret, "User-Agent": secret, "Referer": secret}
    )
    service.ask(
        "POST", "/v1/exec", content=b'{"lang": "' + secret.encode(), headers={"Content-Type": "application/json"}
    )
    service.ask("POST", "/v1/exec", json={"lang": hostile, "code": hostile, secret: secret, "apiKey": service.key})
    service.ask("POST", "/v1/exec", json={"lang": "bash", "code": "true"}, headers={"Idempotency-Key": secret})
    service.ask("GET", "/v1/health", key=secret)
    service.ask(
        "POST",
        "/v1/upload",
        content=secret.encode(),
        headers={"Content-Type": f"multipart/form-data; boundary={secret}"},
    )
    service.tool("exec_run", {"lang": "bash", "code": f"echo {secret}"})
    service.tool("exec_run", {"lang": secret, "code": secret})
    service.tool(secret, {secret: secret})
    service.raw(secret, f"/{secret}", headers={"X-API-Key": service.key, secret: secret})
    log = service.log()
    for text in (secret, secret[4:], "forged-line", "ZeroDivisionError", service.key, service.other_key, "x\\n"):
        assert text not in log, text
    lines = log.splitlines()
    assert len(lines) > 20
    for line in lines:
        if line.startswith("Workroom is ready: http://127.0.0.1:"):
            continue
        if line in SERVER_WORDS:
            continue
        assert line.startswith("{"), line
        row = json.loads(line)
        assert row["event"] in ("request", "janitor"), line


def test_K21_words_that_change_a_tool_do_not_reach_a_program(service: Service) -> None:
    """Neither from the service's own environment (it has CANARIES) nor from a request: not as a field, nor a header."""
    assert "NODE_OPTIONS" in CANARIES
    wanted = {"LD_PRELOAD": "/mnt/data/x.so", "NODE_OPTIONS": "--require ./x.js", "PYTHONSTARTUP": "x.py", "BASH_ENV": "x.sh",
              "PYTHONPATH": ".", "R_PROFILE_USER": "x.R", "JAVA_TOOL_OPTIONS": "-version", "PATH": "/mnt/data"}  # fmt: skip
    session = service.run(
        "bash",
        "for n in x.js x.py x.sh x.R sitecustomize.py; do echo 'print(\"hijacked\")' > $n; done; cp x.sh node; chmod +x node",
    ).session
    headers = {name.replace("_", "-"): value for name, value in wanted.items()} | {"X-Env": json.dumps(wanted)}
    for lang in LANGS:
        body = {
            "lang": lang,
            "code": programs.HELLO[lang],
            "session_id": session,
            "env": wanted,
            "environment": wanted,
            "options": wanted,
        }
        answer = service.post(body, headers=headers)
        data = answer.json()
        assert (data["stdout"], data["stderr"], data["code"], data["files"]) == ("hello\n", "", 0, []), (lang, data)
    env = service.post({"lang": "bash", "code": "env", "env": wanted, "session_id": session}, headers=headers).json()[
        "stdout"
    ]
    for name in wanted:
        assert f"{name}=" not in env.replace("PATH=/usr/local/bin:/usr/bin:/bin\n", "").replace("GOPATH=", ""), name


TRAPS = {
    "json.py": "raise SystemExit('hijacked')\n",
    "os.py": "raise SystemExit('hijacked')\n",
    "site.py": "raise SystemExit('hijacked')\n",
    "sitecustomize.py": "print('hijacked')\n",
    "usercustomize.py": "print('hijacked')\n",
    "encodings/__init__.py": "raise SystemExit('hijacked')\n",
    "workroom_plots.py": "raise SystemExit('hijacked')\n",
    "x.pth": "import hijacked\n",
    "pyvenv.cfg": "home = /mnt/data\n",
    ".Rprofile": "cat('hijacked\\n')\n",
    ".Renviron": "R_DEFAULT_PACKAGES=hijacked\n",
    "Rprofile.site": "cat('hijacked\\n')\n",
    "go.mod": "this is no go.mod\n",
    "go.work": "nor is this\n",
    "vendor/fmt/fmt.go": "package hijacked\n",
    "package.json": '{"type": "commonjs", "main": "x"}\n',
    "tsconfig.json": "{broken",
    "node_modules/fs/index.js": "console.log('hijacked')\n",
    ".npmrc": "node-options=--bad\n",
    "php.ini": "auto_prepend_file=/mnt/data/x.php\ndisplay_errors=1\n",
    ".user.ini": "auto_prepend_file=/mnt/data/x.php\n",
    "php-cli.ini": "auto_prepend_file=/mnt/data/x.php\n",
    "x.php": "<?php echo 'hijacked';\n",
    ".bashrc": "echo hijacked\n",
    ".bash_profile": "echo hijacked\n",
    ".profile": "echo hijacked\n",
    "stdio.h": "#error hijacked\n",
    "iostream": "#error hijacked\n",
    "rust-toolchain.toml": "[toolchain]\nchannel = 'hijacked'\n",
    "java/lang/Object.java": "hijacked\n",
    "META-INF/services/x": "hijacked\n",
    ".gdbinit": "shell echo hijacked\n",
    "matplotlibrc": "backend: hijacked\n",
}  # fmt: skip


@pytest.fixture(scope="module", name="trapped")
def _trapped(service: Service) -> str:
    code = "import json, os, sys\nfor name, text in json.loads(sys.argv[1]).items():\n    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n    open(name, 'w').write(text)\n"
    ran = service.run("py", code, args=[json.dumps(TRAPS)]).ended(0)
    assert len(ran.files) == len(TRAPS)
    return ran.session


@pytest.mark.parametrize("lang", LANGS)
def test_K22_traps_of_a_workspace_reach_no_start_of_ours(service: Service, trapped: str, lang: str) -> None:
    """A hello, among files that tools look for by themselves, prints hello."""
    ran = service.run(lang, programs.HELLO[lang], trapped)
    assert "hijacked" not in ran.stdout + ran.stderr, ran
    ran.ok("hello\n")


def test_K22_our_own_code_is_not_imported_from_there(service: Service, trapped: str) -> None:
    """The executor and the service run as before, from their own modules."""
    code = "import sys\nprint(sys.flags.safe_path, sys.prefix, [m for m in sys.modules.values() if (getattr(m, '__file__', '') or '').startswith('/mnt')])\n"
    ran = service.run("py", code, trapped).ended(0)
    assert ran.stdout.endswith(" /usr []\n"), ran
    for pid in (service.pid, service.executor_pid()):
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "/held/" not in maps
        assert not os.readlink(f"/proc/{pid}/cwd").startswith(str(service.folder / "work"))


def test_K22_a_program_uses_its_own_modules_as_on_its_own_machine(service: Service) -> None:
    session = service.upload("mine.py", b"x = 41\n")
    service.upload("json.py", b"x = 'my json'\n", session)
    service.run("py", "import mine\nprint(mine.x + 1)\n", session).ok("42\n")
    service.run("py", "import json\nprint(json.x)\n", session).ok("my json\n")
    service.upload("lib/index.js", b"module.exports = 5;", session)
    service.upload("package.json", b'{"type": "module"}', session)
    service.run(
        "js", "import { readFileSync } from 'fs';\nconsole.log(readFileSync('mine.py', 'utf8').length)\n", session
    ).ok("7\n")
    service.upload("functions.php", b"<?php function five() { return 5; }", session)
    service.run("php", "<?php require 'functions.php'; echo five();", session).ok("5")
    service.upload("helpers.R", b"five <- 5\n", session)
    service.run("r", "source('helpers.R')\ncat(five)\n", session).ok("5")
    service.upload("lib.sh", b"five() { echo 5; }\n", session)
    service.run("bash", ". ./lib.sh; five", session).ok("5\n")
    service.run("bash", "sed -i s/41/1/ mine.py; python3 -c 'import mine; print(mine.x)'", session).ok(
        "1\n", ["mine.py"]
    )
