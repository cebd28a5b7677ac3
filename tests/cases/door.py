"""The service as its users have it: the real command, its real sandbox and toolchains, reached over HTTP alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from sandbox_image.locate import build_jail
from shared.executor.wire import RunLimits

LANGS = ("py", "js", "ts", "bash", "r", "php", "go", "rs", "c", "cpp", "java", "d", "f90")
PROJECT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
_START_S = 60.0
CANARIES = {
    "AWS_SECRET_ACCESS_KEY": "canary-1",
    "AWS_LAMBDA_RUNTIME_API": "canary-2:9001",
    "_HANDLER": "canary-3",
    "BASH_ENV": "/canary-4",
    "ENV": "/canary-5",
    "NODE_OPTIONS": "--canary-6",
    "PYTHONSTARTUP": "/canary-7",
    "JAVA_TOOL_OPTIONS": "-Dcanary=8",
    "R_PROFILE_USER": "/canary-9",
    "PHPRC": "/canary-10",
    "GOFLAGS": "-canary=11",
    "RUSTFLAGS": "--canary-12",
    "LD_LIBRARY_PATH": "/canary-13",
    "CPATH": "/canary-14",
    "SOURCE_DATE_EPOCH": "1",
}
"""What the service finds in its own environment, and no program may: secrets, and words that change a tool."""
_READY = re.compile(r"^Workroom is ready: (http://127\.0\.0\.1:\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """The answer of a run that was served."""

    session: str
    stdout: str
    stderr: str
    code: int | None
    signal: str | None
    status: str | None
    message: str | None
    files: list[dict[str, Any]]
    deleted: list[str]
    seconds: float

    @property
    def names(self) -> list[str]:
        return [row["name"] for row in self.files]

    def expect(self, stdout: str, files: Sequence[str] = ()) -> Ran:
        """Assert that it ended by itself with 0, printed exactly this, nothing on stderr, and left these files."""
        assert (self.code, self.signal, self.status, self.message) == (0, None, None, None), self
        assert self.stderr == "", self
        assert self.stdout == stdout, self
        assert self.names == sorted(files, key=str.encode), self
        return self

    def expect_end(self, code: int) -> Ran:
        """Assert that it ended by itself with this code."""
        assert (self.code, self.signal, self.status) == (code, None, None), self
        return self

    def last_line(self) -> str:
        """The last line of stderr, which is whole."""
        assert self.stderr.endswith("\n"), self
        return self.stderr.splitlines()[-1]


@dataclass
class Service:
    """A running service, one project's key and another's."""

    url: str
    key: str
    other_key: str
    pid: int
    folder: Path
    http: httpx.Client = field(repr=False)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def log(self) -> str:
        """All that the service printed so far, both streams."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def ask(self, method: str, path: str, *, key: str | None = None, **more: Any) -> httpx.Response:
        """One request, with the first project's key unless another is given ("" sends none)."""
        headers = dict(more.pop("headers", {}))
        if key != "":
            headers["X-API-Key"] = key or self.key
        return self.http.request(method, self.url + path, headers=headers, **more)

    def raw(self, method: str, target: str, *, headers: Mapping[str, str], body: bytes = b"") -> bytes:
        """One request with exactly this target over a socket of its own; the answer as it came, less what is its own.

        Left out are the date and the request's id.
        """
        lines = [f"{method} {target} HTTP/1.1", "Host: h", "Connection: close", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            answer = b""
            while piece := sock.recv(1 << 16):
                answer += piece
        head, _, rest = answer.partition(b"\r\n\r\n")
        kept = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"date:", b"x-request-id:"))]
        return b"\r\n".join(kept) + b"\r\n\r\n" + rest

    def tool(self, name: str, arguments: Any, *, key: str | None = None) -> httpx.Response:
        """Call a tool through MCP, as a client that keeps no session."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        headers = {"Accept": "application/json, text/event-stream"}
        return self.ask("POST", "/mcp", key=key, json=call, headers=headers)

    def make_key(self, project: str, *options: str) -> str:
        """A key that the operator makes while the service runs."""
        return _make_key(environment(self.folder), project, *options)

    def post(self, body: Any, *, key: str | None = None, **more: Any) -> httpx.Response:
        """`POST /v1/exec`."""
        return self.ask("POST", "/v1/exec", key=key, json=body, **more)

    def run(self, lang: str, code: str, session: str | None = None, **body: Any) -> Ran:
        """Run a program and expect that it was served: 200, whatever became of the program."""
        if session is not None:
            body["session_id"] = session
        key = body.pop("key", None)
        begun = time.monotonic()
        answer = self.post({"lang": lang, "code": code, **body}, key=key)
        seconds = time.monotonic() - begun
        assert answer.status_code == 200, (answer.status_code, answer.text)
        data = answer.json()
        if session is not None:
            assert data["session_id"] == session
        return Ran(
            data["session_id"], data["stdout"], data["stderr"], data["code"], data["signal"], data["status"],
            data["message"], data["files"], data["deleted_files"], seconds,
        )  # fmt: skip

    def upload(self, name: str, content: bytes, session: str | None = None, *, read_only: bool = False) -> str:
        """Upload one file; the session that it is in."""
        fields = {} if session is None else {"session_id": session}
        if read_only:
            fields["read_only"] = "true"
        answer = self.ask("POST", "/v1/exec/upload", data=fields, files={"file": (name, content)})
        assert answer.status_code == 200, answer.text
        assert answer.json()["files"][0]["filename"] == name
        return str(answer.json()["session_id"])

    def rows(self, session: str) -> list[dict[str, Any]]:
        """The listing of a session."""
        answer = self.ask("GET", f"/v1/exec/files/{session}")
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()
        return rows

    def names(self, session: str) -> list[str]:
        """The paths of a session's listing."""
        return [row["metadata"]["original-filename"] for row in self.rows(session)]

    def download(self, session: str, file: str) -> httpx.Response:
        """A file by its id or its path."""
        return self.ask("GET", f"/v1/exec/download/{session}/{quote(file, safe='')}")

    def read(self, session: str, file: str) -> bytes:
        """The bytes of a file that is there."""
        answer = self.download(session, file)
        assert answer.status_code == 200, answer.text
        return answer.content

    def executor_pid(self) -> int:
        """The process that runs programs: the service's child."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        children += [
            pid
            for thread in Path(f"/proc/{self.pid}/task").iterdir()
            for pid in (thread / "children").read_text().split()
        ]
        found = {int(pid) for pid in children if b"sandbox_image.runner" in Path(f"/proc/{pid}/cmdline").read_bytes()}
        assert len(found) == 1, found
        return found.pop()

    def kill_executor(self) -> None:
        """End the process that runs programs without a warning; back when the service knows of it.

        The folders that it held go with it: what comes next is restored from the store.
        """
        pid = self.executor_pid()
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: not Path(f"/proc/{pid}").exists())


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of a service whose folders are all in `folder`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WORKROOM_")} | CANARIES
    cache = Path(os.environ.get("WORKROOM_CACHE", "/var/cache/workroom"))
    env["WORKROOM_CACHE"] = str(cache)
    env["WORKROOM_JAIL"] = str(build_jail(cache))
    if root := os.environ.get("WORKROOM_ROOT"):
        env["WORKROOM_ROOT"] = root
    env |= {"WORKROOM_DATA": str(folder / "data"), "WORKROOM_WORK": str(folder / "work"), "WORKROOM_PORT": "0"}
    return env | {f"WORKROOM_{name.upper()}": value for name, value in settings.items()}


def workroom() -> str:
    """The command of this installation."""
    return str(Path(sys.executable).with_name("workroom"))


@contextmanager
def served(command: Sequence[str] = (), *, runs: bool = True, **settings: str) -> Iterator[Service]:
    """Start a service in folders of its own, wait for it, end it by its process id.

    `command` stands for `workroom serve`. `runs`: it is expected to run programs, in all thirteen languages.
    """
    folder = Path(tempfile.mkdtemp(prefix="workroom-cases-"))
    # Programs run under other users, who must be able to pass through to the workspaces; `data` itself is private.
    folder.chmod(0o711)
    env = environment(folder, **settings)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            list(command) or [workroom(), "serve"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        url = _address(process, folder)
        with httpx.Client(timeout=90, trust_env=False, limits=httpx.Limits(max_connections=64)) as http:
            key = (folder / "data" / "dev.key").read_text().strip()
            service = Service(url, key, _make_key(env, "other"), process.pid, folder, http)
            if runs:
                health = service.ask("GET", "/v1/health").json()
                assert health["executor"]["ready"], health
                assert [name for name in LANGS if not health["languages"][name]["present"]] == [], (
                    "thirteen languages are not optional: run `make setup`"
                )
            yield service
            assert process.poll() is None, (process.returncode, service.log()[-4_000:])
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def _address(process: subprocess.Popen[bytes], folder: Path) -> str:
    deadline = time.monotonic() + _START_S
    while True:
        text = (folder / "log").read_text("utf-8", "replace")
        if found := _READY.search(text):
            return found[1]
        assert process.poll() is None, text
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def _make_key(env: Mapping[str, str], project: str, *options: str) -> str:
    made = subprocess.run(
        [workroom(), "keys", "create", "--project", project, *options],
        env=dict(env), capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return made.stdout.strip()


def until(what: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until it holds; whether it did in time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call all at the same time; the results in order. An exception of a call is raised here."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def one(index: int) -> None:
        try:
            barrier.wait(20)
            results[index] = calls[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


def plain_limits() -> RunLimits:
    """Limits for a run that goes to an executor directly: 2 s, small numbers."""
    return RunLimits(
        wall_ms=2_000, memory_bytes=512 * MIB, processes=256, open_files=256, file_bytes=MIB, tmp_bytes=MIB,
        stdout_bytes=MIB, stderr_bytes=MIB, flood_bytes=64 * MIB, workspace_bytes=MIB, workspace_entries=100,
        path_bytes=5_000, path_depth=80, inline_bytes=MIB, small_file_bytes=MIB,
    )  # fmt: skip
