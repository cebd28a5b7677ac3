"""The commands: their arguments, where their code lies, and where their prose comes from.

Nothing heavy is imported here: a command's code is, when it runs, and an operation's prose, when help is asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from shared.executor.wire import LANGS
from shared.settings import EXECUTORS, PREFIX, STORES, Settings

Parser = argparse.ArgumentParser


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `code` is `module:function`; `prose` the operation or route whose prose is its help.

    `end` stands at the end of its help: what holds of the command alone.
    """

    name: str
    code: str
    prose: str | None
    arguments: Callable[[Parser], None]
    end: Callable[[], str] = str


def _none(_parser: Parser) -> None:
    pass


def _service(parser: Parser) -> None:
    parser.add_argument("--url", help="address of the service; default: WORKROOM_URL, else the data folder itself")


def _serve(parser: Parser) -> None:
    parser.add_argument("--store", choices=STORES, help="state and objects; default: WORKROOM_STORE")
    parser.add_argument(
        "--executor", choices=EXECUTORS, help="where programs run; default: WORKROOM_EXECUTOR, else local"
    )


def _exits() -> str:
    return (
        "The command prints what the program printed and exits with the program's code, 128 + n where signal n ended "
        "it. What is refused or fails before that is a line that begins with `error:`, and exit code 1; a wrong "
        "command line is 2."
    )


def _settings() -> str:
    """Every setting, as the environment has them."""
    from functions.cli.docs import default_of  # noqa: PLC0415

    rows = [
        f"{PREFIX}{entry.name.upper()}{f' ({default})' if (default := default_of(entry.default)) else ''}\n"
        f"    {entry.metadata['doc']}"
        for entry in fields(Settings)
    ]
    return (
        "Settings are variables of the environment, here with their defaults. As long as the development key is "
        "accepted, the file dev.key of the data folder holds it.\n\n" + "\n".join(rows)
    )


def _folder() -> str:
    return "Works on the data folder of this machine, WORKROOM_DATA, also while a service runs on it."


def _run(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the program; - reads it from standard input")
    parser.add_argument("--lang", choices=LANGS, help="its language; default: by the extension")
    parser.add_argument("--session", metavar="ID", help="session to continue; default: a new one")
    parser.add_argument(
        "--timeout", metavar="MS", type=int, help="run time in milliseconds; default: the service's own"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder to save the files in that the program made")
    parser.add_argument("--verbose", action="store_true", help="name the session and the files on standard error")
    _service(parser)
    parser.add_argument("--args", metavar="…", help="arguments of the program: all that follow")


def _files(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="id of the session")
    parser.add_argument("--json", action="store_true", help="print the listing as the service gives it")
    _service(parser)


def _upload(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="id of the session; new makes one and prints its id")
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file, or a folder with all that is in it")
    parser.add_argument("--into", metavar="FOLDER", help="folder of the workspace to put them in")
    parser.add_argument("--read-only", action="store_true", help="let no program change them")
    parser.add_argument("--verbose", action="store_true", help="name each stored file on standard error")
    _service(parser)


def _download(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="id of the session")
    parser.add_argument("name", metavar="NAME", help="the file's path in the session, or its id")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="where to save it, - for standard output; default: its name, here"
    )
    _service(parser)


def _delete(parser: Parser) -> None:
    parser.add_argument("session", metavar="SESSION", help="id of the session")
    parser.add_argument("name", metavar="NAME", help="the file's path in the session, or its id")
    _service(parser)


def _call(parser: Parser) -> None:
    parser.add_argument("operation", metavar="OP", nargs="?", help="the operation, as --list names it")
    parser.add_argument("input", metavar="JSON", nargs="?", default="{}", help="its input; - reads standard input")
    parser.add_argument("--list", action="store_true", help="list the operations")
    parser.add_argument("--schema", action="store_true", help="print the operation's input as JSON Schema")
    parser.add_argument("-h", "--help", action="store_true", help="show this, or the operation's own help")
    _service(parser)


def _keys(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="create | list | revoke")
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("--project", metavar="NAME", required=True, help="project that it belongs to")
    create.add_argument("--name", default="", help="what it is for, in your own words")
    create.add_argument("--expires-in-s", metavar="SECONDS", type=int, help="when it ends; default: never")
    actions.add_parser("list", help="list the keys")
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    revoke.add_argument("id", metavar="ID", help="id of the key, as keys list shows it")


def _writes(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | settle")
    actions.add_parser("list", help="list the writes that are not settled")
    settle = actions.add_parser("settle", help="show a write, and say what became of it")
    settle.add_argument("id", metavar="ID", help="id of the write, as writes list shows it")
    settle.add_argument("outcome", choices=("committed", "rejected"), help="whether its file was published")
    settle.add_argument("--yes", action="store_true", help="do not ask again")


COMMANDS = {
    command.name: command
    for command in (
        Command("serve", "functions.cli.operate:serve", None, _serve, _settings),
        Command("run", "functions.cli.run:run", "exec.run", _run, _exits),
        Command("files", "functions.cli.transfer:files", "files.list", _files),
        Command("upload", "functions.cli.transfer:upload", "files.upload_batch", _upload),
        Command("download", "functions.cli.transfer:download", "files.download", _download),
        Command("delete", "functions.cli.transfer:delete", "files.delete", _delete),
        Command("call", "functions.cli.call:call", None, _call),
        Command("keys", "functions.cli.operate:keys", None, _keys, _folder),
        Command("writes", "functions.cli.unsettled:writes", None, _writes, _folder),
        Command("janitor", "functions.cli.operate:janitor", None, _none, _folder),
        Command("mcp", "functions.cli.operate:mcp", None, _service),
    )
}
