"""`workroom files`, `upload`, `download` and `delete`: the files of a session."""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from functions.cli.client import Client, Outgoing, connect, path_of, segment
from functions.cli.progress import progress
from functions.cli.run import counted
from functions.cli.saving import save
from functions.cli.show import Refused, as_json, error, line, note, table
from shared.limits import Limits
from shared.settings import Settings

NEW = "new"


def files(settings: Settings, args: Namespace) -> int:
    """Print the files of a session."""
    with connect(settings) as client:
        rows = client.json("GET", f"/v1/exec/files/{segment(args.session)}")
    if args.json:
        as_json(rows)
        return 0
    shown = [(row["id"], str(row["size"]), row["lastModified"], row["metadata"]["original-filename"]) for row in rows]
    table(("ID", "SIZE", "MODIFIED", "NAME"), shown)
    return 0


def upload(settings: Settings, args: Namespace) -> int:
    """Send files and folders to a session, and print its id."""
    outgoing = list(_outgoing(args.files, args.into))
    if not outgoing:
        raise Refused("there is no file to upload")
    most = Limits().batch_files
    session = None if args.session == NEW else segment(args.session)
    whole = True
    with (
        connect(settings) as client,
        progress("upload", sum(file.size for file in outgoing)) as advance,
    ):
        for start in range(0, len(outgoing), most):
            fields = {"session_id": session} if session else {}
            if args.read_only:
                fields["read_only"] = "true"
            batch = outgoing[start : start + most]
            answer = client.upload("/v1/exec/upload/batch", fields, batch, advance)
            session = segment(str(answer["session_id"]))
            for row in answer["files"]:
                whole &= _told(row, verbose=args.verbose)
    line(str(session))
    return 0 if whole else 1


def _told(row: dict[str, str], *, verbose: bool) -> bool:
    if row.get("status", "success") != "success":
        error(f"{row['filename']}: {row.get('error') or 'was not stored'}")
        return False
    if verbose:
        note(f"{row['fileId']}  {row['filename']}")
    return True


def _outgoing(named: list[str], into: str | None) -> Iterator[Outgoing]:
    """The files to send: a file under its own name, a folder's regular files under the folder's name."""
    for one in named:
        path = Path(one)
        try:
            if not path.is_dir():
                yield _file(path, path.resolve().name, into)
                continue
            top = path.resolve()
            for folder, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    inner = Path(folder) / name
                    if stat.S_ISREG(inner.lstat().st_mode):
                        yield _file(inner, f"{top.name}/{inner.relative_to(top).as_posix()}", into)
        except OSError as problem:
            raise Refused(f"{one} cannot be read: {problem.strerror}") from None


def _file(path: Path, name: str, into: str | None) -> Outgoing:
    size = path.stat().st_size
    if not path.is_file():
        raise Refused(f"{path} is not a regular file")
    return Outgoing(name if into is None else str(PurePosixPath(into, name)), path, size)


def download(settings: Settings, args: Namespace) -> int:
    """Fetch a file of a session, whole or not at all."""
    address = f"/v1/exec/download/{segment(args.session)}/{path_of(args.name)}"
    with connect(settings) as client:
        if args.output == "-":
            _to_stdout(client, address, args.name)
            return 0
        target = _target(args)
        with client.download(address) as (size, pieces), progress(target.name, size) as advance:
            save(target.parent, target.name, counted(pieces, advance))
    return 0


def _target(args: Namespace) -> Path:
    """Where a download goes. A file that is named with -o is replaced; anything else that lies there is left alone."""
    if not args.output:
        target = Path(PurePosixPath(args.name).name)
        if target.exists() or target.is_symlink():
            raise Refused(f"{target} exists already: name another file with -o")
        return target
    target = Path(args.output).resolve()
    if target.exists() and not target.is_file():
        raise Refused(f"{args.output} is not a regular file: name one with -o, or - for standard output")
    return target


def _to_stdout(client: Client, address: str, name: str) -> None:
    with client.download(address) as (size, pieces), progress(name, size) as advance:
        for piece in counted(pieces, advance):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def delete(settings: Settings, args: Namespace) -> int:
    """Remove a file of a session."""
    with connect(settings) as client:
        client.json("DELETE", f"/v1/exec/files/{segment(args.session)}/{path_of(args.name)}")
    return 0
