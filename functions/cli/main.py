"""`workroom`: the entry of the command.

Exit codes: what the command says (for `run` the program's own), 1 for what was refused or failed, 2 for a wrong
command line or setting, 130 after Ctrl-C. An error is one line on standard error, never a traceback.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version

from functions.cli.commands import COMMANDS, Command
from functions.cli.show import Refused, error, line
from shared.settings import BadSetting, Settings

USAGE, FAILED, INTERRUPTED = 2, 1, 130

_ID = re.compile(r"-[A-Za-z0-9_-]{20}", re.ASCII)
_ID_MARK = "\0"
"""An id may begin with `-`, and must not be taken for an option: it is marked while the words are parsed."""

_FIRST = "Run programs and keep their files. Each command has its own --help."


class _Parser(argparse.ArgumentParser):
    """A parser whose prose is fetched when help is printed, and not before."""

    command: Command | None = None

    def format_help(self) -> str:
        if self.command is not None:
            self.description = "\n\n".join(part for part in _prose(self.command) if part)
            self.epilog = self.command.end()
        return super().format_help()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(words)
    except (Refused, BadSetting) as refused:
        error(refused.message if isinstance(refused, Refused) else str(refused))
        return FAILED if isinstance(refused, Refused) else USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read standard output has gone. Nothing more is written, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as problem:
        error(f"unexpected: {type(problem).__name__}")
        return FAILED


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        _overview()
        return 0 if words else USAGE
    if words[0] == "--version":
        line(f"workroom {version('workroom')}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        error(f"there is no command {words[0]}: see workroom --help")
        return USAGE
    parser = _Parser(
        prog=f"workroom {command.name}",
        add_help=command.name != "call",
        allow_abbrev=False,
        formatter_class=_Paragraphs,
    )
    parser.command = command
    command.arguments(parser)
    own, rest = _split(words[1:]) if command.name == "run" else (words[1:], [])
    try:
        args = parser.parse_args([_ID_MARK + word if _ID.fullmatch(word) else word for word in own])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else USAGE
    for name, value in vars(args).items():
        if isinstance(value, str):
            setattr(args, name, value.removeprefix(_ID_MARK))
    args.rest = rest
    if command.name == "call" and args.operation is None and not args.list:
        parser.print_help()
        return 0 if args.help else USAGE
    settings = Settings.read(os.environ)
    for name in ("url", "store", "executor"):
        if (given := getattr(args, name, None)) is not None:
            settings = replace(settings, **{name: given})
    return _code(command)(settings, args)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and the program's: all that follow `--args`, whatever they look like."""
    if "--args" not in words:
        return words, []
    at = words.index("--args")
    return words[:at], words[at + 1 :]


def _code(command: Command) -> Callable[[Settings, argparse.Namespace], int]:
    module, _, name = command.code.partition(":")
    found: Callable[[Settings, argparse.Namespace], int] = getattr(importlib.import_module(module), name)
    return found


def _prose(command: Command) -> tuple[str, str]:
    """Summary and description: the operation's or route's own, else those of the code."""
    if command.prose is None:
        words = " ".join((_code(command).__doc__ or "").split())
        summary, _, rest = words.partition(". ")
        return f"{summary.rstrip('.')}.", rest
    import shared.operations.all  # noqa: F401, PLC0415
    from functions.api.named import NAMED  # noqa: PLC0415
    from shared.operations.base import operations  # noqa: PLC0415

    declared = operations().get(command.prose)
    found = declared or next(route for route in NAMED if route.name == command.prose)
    return f"{found.summary}.", found.description


def _overview() -> None:
    line("usage: workroom COMMAND …")
    line("")
    line(_FIRST)
    line("")
    for command in COMMANDS.values():
        line(f"  {command.name:<10}{_prose(command)[0]}")


class _Paragraphs(argparse.HelpFormatter):
    """Wraps each line by itself: a paragraph is one, and what is set off keeps its indentation."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text

        def filled(row: str) -> str:
            inner = row.lstrip()
            return fill(inner, width, indent + row[: len(row) - len(inner)])

        return "\n\n".join("\n".join(map(filled, part.split("\n"))) for part in text.split("\n\n"))


if __name__ == "__main__":
    sys.exit(main())
