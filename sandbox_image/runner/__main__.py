"""`python -m sandbox_image.runner`."""

import sys

from sandbox_image.runner.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
