"""Run the image's tests and the sandbox's in the image's root: `python -m tests.image [PYTEST ARGUMENT…]`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.image.engine import TAG, find, mounted


def main() -> int:
    """The exit code of pytest; 1 where there is no image."""
    engine = find()
    if engine is None:
        print(f"there is no image {TAG}: make image", file=sys.stderr)
        return 1
    with mounted(engine) as root:
        command = [sys.executable, "-m", "pytest", "tests/image", "tests/sandbox", *sys.argv[1:]]
        return subprocess.run(
            command, env={**os.environ, "TEST_ALL": "1", "TEST_IMAGE_ROOT": str(root)}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
