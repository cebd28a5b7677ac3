"""`workroom run`: a program from a file, as if it ran here."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from pathlib import Path, PurePath
from typing import Any

from functions.cli.client import Client, connect, path_of, segment
from functions.cli.progress import progress
from functions.cli.saving import save
from functions.cli.show import Refused, error, note, raw
from shared.settings import Settings

LANGS = {
    ".py": "py",
    ".js": "js",
    ".mjs": "js",
    ".ts": "ts",
    ".c": "c",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cxx": "cpp",
    ".java": "java",
    ".php": "php",
    ".rs": "rs",
    ".go": "go",
    ".d": "d",
    ".f90": "f90",
    ".f95": "f90",
    ".r": "r",
    ".sh": "bash",
    ".bash": "bash",
}
"""The language by a file's extension, in small letters."""


def run(settings: Settings, args: Namespace) -> int:
    """Run the program and be it: its output, its exit code."""
    body: dict[str, Any] = {"lang": _lang(args), "code": _code(args.file), "args": args.rest}
    if args.session is not None:
        body["session_id"] = args.session
    if args.timeout is not None:
        body["timeout"] = args.timeout
    with connect(settings, programs=True) as client:
        answer = client.json("POST", "/v1/exec", body=body)
        raw(answer["stdout"])
        raw(answer["stderr"], to_stderr=True)
        code = exit_code(answer)
        if args.out is not None and not _save(client, answer, args.out):
            code = code or 1
    if args.verbose or sys.stderr.isatty():
        note(_story(answer))
    return code


def exit_code(answer: dict[str, Any]) -> int:
    """The program's exit code, 128 + n for a signal, 1 where the answer has neither."""
    if answer["code"] is not None:
        return int(answer["code"])
    name = str(answer.get("signal"))
    return 128 + signal.Signals[name].value if name in signal.Signals.__members__ else 1


def _lang(args: Namespace) -> str:
    if args.lang is not None:
        return str(args.lang)
    found = LANGS.get(PurePath(args.file).suffix.lower())
    if found is None:
        raise Refused("the language is not clear from the file's name: give --lang")
    return found


def _code(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except OSError as problem:
        raise Refused(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{file} is not UTF-8 text") from None


def _save(client: Client, answer: dict[str, Any], folder: Path) -> bool:
    """Save what the program made. A file that cannot be saved is told of; the others are saved."""
    whole = True
    for file in answer["files"]:
        if file.get("inherited"):
            continue
        name = str(file["name"])
        try:
            path = f"/v1/exec/download/{segment(answer['session_id'])}/{path_of(file['id'])}"
            with client.download(path) as (size, pieces), progress(PurePath(name).name, size) as advance:
                save(folder, name, counted(pieces, advance))
        except Refused as refused:
            error(refused.message)
            whole = False
    return whole


def counted(pieces: Any, advance: Any) -> Any:
    """The pieces, told of as they pass."""
    for piece in pieces:
        yield piece
        advance(len(piece))


def _story(answer: dict[str, Any]) -> str:
    end = f"signal {answer['signal']}" if answer["code"] is None else f"exit code {answer['code']}"
    parts = [f"session {answer['session_id']}", end, f"{answer['wall_time']} ms"]
    if answer["status"]:
        parts.append(f"status {answer['status']}")
    names = [str(file["name"]) for file in answer["files"] if not file.get("inherited")]
    if names:
        parts.append("files " + ", ".join(names))
    return "; ".join(parts)
