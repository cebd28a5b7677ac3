"""Teach the root's matplotlib to read a font list made with the root. Run once, while the root is made.

matplotlib wants a writable configuration folder, which is new for each run, and would list all fonts anew (about a
second) for each. ``patch_fonts.py FOLDER`` makes it read FOLDER's list first, and writes that list.
"""

# mypy: disable-error-code="import-not-found"
# matplotlib is in the root, not where this file is checked.

import pathlib
import subprocess
import sys

folder = pathlib.Path(sys.argv[1])
import matplotlib.font_manager  # noqa: E402

source = pathlib.Path(matplotlib.font_manager.__file__)
text = source.read_text(encoding="utf-8")
before = """    if try_read_cache:
        try:
            fm = json_load(fm_path)
"""
after = f"""    if try_read_cache:
        prepared = Path({str(folder)!r}, fm_path.name)
        if prepared.exists():
            fm_path = prepared
        try:
            fm = json_load(fm_path)
"""
if after not in text:
    if text.count(before) != 1:
        sys.exit("this matplotlib reads its font list in another way")
    source.write_text(text.replace(before, after), encoding="utf-8")
version = matplotlib.font_manager.FontManager.__version__
matplotlib.font_manager.json_dump(matplotlib.font_manager.FontManager(), folder / f"fontlist-v{version}.json")
subprocess.run([sys.executable, "-m", "compileall", "-q", "-f", str(source)], check=True)
