"""The executor function under Lambda's emulator: its cold first answer and its warm answers, printed as a table.

`make bench-image` runs it in the built image, `python -m tests.bench.function` in the toolchain root with our code.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.cases.programs import HELLO
from tests.image.engine import TAG, find, mounted
from tests.sandbox.rooms import Room, room

COLD_ROUNDS, WARM_ROUNDS = 5, 15
WARM = ("bash", "py", "js", "c", "go", "java")


def main() -> int:
    """Measure both configurations. With `--image` everything again, in the image's root."""
    if "--image" in sys.argv[1:]:
        engine = find()
        if engine is None:
            print(f"there is no image {TAG}: make image", file=sys.stderr)
            return 1
        with mounted(engine) as root:
            env = {**os.environ, "TEST_IMAGE_ROOT": str(root)}
            return subprocess.run([sys.executable, "-m", "tests.bench.function"], env=env, check=False).returncode
    print("| environment | cold, ms | " + " | ".join(f"{lang}, ms" for lang in WARM) + " |")
    print("|---|---|" + "---|" * len(WARM))
    for name in ("strict", "like lambda"):
        cold = [_cold(name) for _ in range(COLD_ROUNDS)]
        with room(name) as warm:
            cells = [f"{statistics.median(_warm(warm, lang)):.0f}" for lang in WARM]
        print(f"| {name} | {statistics.median(cold):.0f} | " + " | ".join(cells) + " |", flush=True)
    return 0


def _cold(name: str) -> float:
    """From the first event of a fresh environment to its answer, probes of the layers included."""
    with room(name) as fresh:
        begun = time.perf_counter()
        answer = fresh.run("bash", HELLO["bash"], wall_ms=30_000)
        assert answer.stdout == "hello\n", answer
        return (time.perf_counter() - begun) * 1000


def _warm(fresh: Room, lang: str) -> Iterator[float]:
    fresh.run(lang, HELLO[lang], wall_ms=30_000)
    for _ in range(WARM_ROUNDS):
        begun = time.perf_counter()
        answer = fresh.run(lang, HELLO[lang], wall_ms=30_000)
        assert answer.stdout == "hello\n", answer
        yield (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    sys.exit(main())
