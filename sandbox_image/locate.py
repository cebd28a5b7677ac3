"""Where the jail and the toolchain root of this machine lie: in its cache, named by the digest of what makes them.

`python -m sandbox_image.locate jail --cache DIR` builds the jail if it is not there and prints its path; a second
checkout with the same sources finds it ready.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = re.compile(r"root-[0-9a-f]{12}[a-z0-9-]*")
"""A finished root. One that is being made has another ending."""


class NotInstalled(RuntimeError):
    """A part is missing; the text says what makes it."""


def jail_path(cache: Path) -> Path:
    """The path of the jail made from the sources beside this module, whether it exists or not."""
    hasher = hashlib.sha256()
    for source in sorted((_HERE / "jail").rglob("*")):
        if source.is_file() and source.suffix in (".c", ".h", "") and not source.name.startswith("."):
            hasher.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return cache / f"jail-{hasher.hexdigest()[:12]}" / "jail"


def build_jail(cache: Path) -> Path:
    """The jail, compiled if need be, put in place whole. Errors: CalledProcessError."""
    path = jail_path(cache)
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".jail-") as out:
        subprocess.run(["make", "-s", "-C", str(_HERE / "jail"), f"OUT={out}"], check=True, stdout=sys.stderr)
        path.parent.mkdir(exist_ok=True)
        path.parent.chmod(0o755)
        os.replace(Path(out) / "jail", path)
    return path


def find_jail(cache: Path) -> Path:
    """The jail of this machine. Errors: NotInstalled."""
    path = jail_path(cache)
    if not path.exists():
        raise NotInstalled("the jail is not built: run `make setup`")
    return path


def find_root(cache: Path) -> Path:
    """The toolchain root of this machine: the one of the present scripts, else the newest. Errors: NotInstalled."""
    build = _HERE / "toolchains" / "build"
    shown = subprocess.run(
        [str(build), "--print", "--cache", str(cache)], capture_output=True, text=True, check=False, timeout=30
    )
    wanted = Path(shown.stdout.strip() or "/nonexistent")
    if shown.returncode == 0 and wanted.is_dir():
        return wanted
    whole = [path for path in cache.glob("root-*") if _ROOT.fullmatch(path.name)]
    others = sorted(whole, key=lambda path: path.stat().st_mtime)
    if not others:
        raise NotInstalled("no toolchains are installed: run `make setup`")
    return others[-1]


def main() -> None:
    """Build the jail and print its path."""
    parser = argparse.ArgumentParser(description="Build the jail if it is not there; print its path.")
    parser.add_argument("part", choices=["jail"])
    parser.add_argument("--cache", type=Path, required=True)
    print(build_jail(parser.parse_args().cache))


if __name__ == "__main__":
    main()
