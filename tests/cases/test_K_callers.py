# ruff: noqa: E501 (programs stand as they are written)
"""cases.md K10 to K22: what a compiler, a caller, a log and a workspace's own files try."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cases import programs
from tests.cases.door import CANARIES, LANGS, Service, environment, workroom

BEARER_ONLY: list[dict[str, list[str]]] = [{"bearer": []}]
"""What the document says of an operation of the Agents API."""

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
        service.run(lang, programs.HELLO[lang], session).expect("hello\n")


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
        for method, described in item.items():
            if method not in ("get", "post", "put", "delete") or path in free or path.startswith("/docs"):
                continue
            if described.get("security") == BEARER_ONLY:
                continue  # the next test
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


def test_K14_no_operation_of_the_agents_api_runs_without_a_valid_bearer(service: Service) -> None:
    """Its credential is one Bearer; a key in another header is none, however good (agents.md 1.1)."""
    expired = service.make_key("dev", "--expires-in-s", "1")
    service.run("bash", "sleep 1.1")
    document = service.ask("GET", "/openapi.json", key="").json()
    refusals: set[bytes] = set()
    tried = 0
    for path, item in document["paths"].items():
        for method, described in item.items():
            if described.get("security") != BEARER_ONLY:
                continue
            target = re.sub(r"\{[a-z]+_id\}", "file-x", path)
            for headers in (
                {},
                {"X-API-Key": service.key},
                {"Authorization": f"Basic {service.key}"},
                {"Authorization": f"Bearer {service.key[:-2]}"},
                {"Authorization": f"Bearer {expired}"},
                {"Authorization": f"Bearer {expired}", "X-API-Key": service.key},
                {"Authorization": f"Bearer {service.key}, Bearer {service.key}"},
                {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
            ):
                tried += 1
                more = {"Content-Type": "application/json", "OpenAI-Beta": "agents=v1"}
                body = b'{"agent": {"model": "program:bash"}, "input": "echo ran"}' if method == "post" else b""
                answer = service.raw(method.upper(), target, headers=headers | more, body=body)
                assert answer.startswith(b"HTTP/1.1 401 "), (method, path, headers, answer)
                refusals.add(answer.partition(b"\r\n\r\n")[2])
    assert tried > 200
    errors = [json.loads(body)["error"] for body in refusals]
    assert {error.pop("code") for error in errors} == {None, "invalid_api_key"}
    refused = {"message": "A valid Agents API bearer key is required.", "type": "invalid_request_error", "param": None}
    assert errors == [refused, refused]


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
    ran = service.run("py", code, args=[json.dumps(TRAPS)]).expect_end(0)
    assert len(ran.files) == len(TRAPS)
    return ran.session


@pytest.mark.parametrize("lang", LANGS)
def test_K22_traps_of_a_workspace_reach_no_start_of_ours(service: Service, trapped: str, lang: str) -> None:
    """A hello, among files that tools look for by themselves, prints hello."""
    ran = service.run(lang, programs.HELLO[lang], trapped)
    assert "hijacked" not in ran.stdout + ran.stderr, ran
    ran.expect("hello\n")


def test_K22_our_own_code_is_not_imported_from_there(service: Service, trapped: str) -> None:
    """The executor and the service run as before, from their own modules."""
    code = "import sys\nprint(sys.flags.safe_path, sys.prefix, [m for m in sys.modules.values() if (getattr(m, '__file__', '') or '').startswith('/mnt')])\n"
    ran = service.run("py", code, trapped).expect_end(0)
    assert ran.stdout.endswith(" /usr []\n"), ran
    for pid in (service.pid, service.executor_pid()):
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "/held/" not in maps
        assert not os.readlink(f"/proc/{pid}/cwd").startswith(str(service.folder / "work"))


def test_K22_a_program_uses_its_own_modules_as_on_its_own_machine(service: Service) -> None:
    session = service.upload("mine.py", b"x = 41\n")
    service.upload("json.py", b"x = 'my json'\n", session)
    service.run("py", "import mine\nprint(mine.x + 1)\n", session).expect("42\n")
    service.run("py", "import json\nprint(json.x)\n", session).expect("my json\n")
    service.upload("lib/index.js", b"module.exports = 5;", session)
    service.upload("package.json", b'{"type": "module"}', session)
    service.run(
        "js", "import { readFileSync } from 'fs';\nconsole.log(readFileSync('mine.py', 'utf8').length)\n", session
    ).expect("7\n")
    service.upload("functions.php", b"<?php function five() { return 5; }", session)
    service.run("php", "<?php require 'functions.php'; echo five();", session).expect("5")
    service.upload("helpers.R", b"five <- 5\n", session)
    service.run("r", "source('helpers.R')\ncat(five)\n", session).expect("5")
    service.upload("lib.sh", b"five() { echo 5; }\n", session)
    service.run("bash", ". ./lib.sh; five", session).expect("5\n")
    service.run("bash", "sed -i s/41/1/ mine.py; python3 -c 'import mine; print(mine.x)'", session).expect(
        "1\n", ["mine.py"]
    )
