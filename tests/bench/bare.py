"""The bare commands: a program of a language compiled and run in the toolchain root with no service and no sandbox.

Runs in a mount namespace of its own (`unshare --mount`), so that the root gets /proc, /dev and a /tmp for a while.
Reads a language a line, answers the milliseconds that its commands took.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from sandbox_image.languages import BASE_ENV, LANGUAGES, compile_argv, run_argv
from tests.bench.programs import HELLO


def main() -> None:
    """Serve bare runs for the root that is named on the command line."""
    root = Path(sys.argv[1])
    for kind, source, target in (("proc", "proc", "proc"), ("tmpfs", "tmpfs", "tmp"), ("tmpfs", "tmpfs", "program")):
        subprocess.run(["mount", "-t", kind, source, str(root / target)], check=True)
    subprocess.run(["mount", "--rbind", "/dev", str(root / "dev")], check=True)
    os.chroot(root)
    for line in sys.stdin:
        print(f"{_run(line.strip()):.3f}", flush=True)


def _run(lang: str) -> float:
    language = LANGUAGES[lang]
    source = Path("/program") / language.source
    source.write_text(HELLO[lang])
    shutil.rmtree("/tmp/build", ignore_errors=True)
    for folder in ("/tmp/build", "/tmp/home"):
        Path(folder).mkdir(exist_ok=True)
    env = {**BASE_ENV, **dict(language.env)}
    begun = time.perf_counter()
    if language.compile:
        _call(compile_argv(language, str(source), "/tmp/build", "/mnt/data"), env)
    out = _call(run_argv(language, str(source), "/tmp/build", "/mnt/data", []), env)
    spent = time.perf_counter() - begun
    assert out == b"hello\n", out
    return spent * 1000


def _call(argv: tuple[str, ...] | list[str], env: dict[str, str]) -> bytes:
    done = subprocess.run(argv, env=env, cwd="/mnt/data", capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return done.stdout


if __name__ == "__main__":
    main()
