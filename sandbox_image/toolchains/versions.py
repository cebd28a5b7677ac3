"""Write toolchains.json: what each chosen language really is. ``versions.py FOLDER "LANG LANG…" OUTPUT``, in the root.

``{lang: {"present", "version", "packages", "reason", "install"}}``: ``version`` is the first line that the tool
itself prints ("" when it does not run); ``reason`` and ``install`` (a command) are "" when it is present.
"""

import json
import pathlib
import re
import subprocess
import sys

folder, langs, output = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3]
table = {}
for line in (folder / "languages").read_text(encoding="utf-8").splitlines():
    match = re.fullmatch(r"([a-z0-9]+): *([^:]*): *(.*)", line)
    if match:
        table[match[1]] = (match[2].split(), match[3].split())

entries = {}
for lang in langs:
    packages, command = table[lang]
    note = folder / f"failed-{lang}"
    reason = note.read_text(encoding="utf-8").strip() if note.exists() else ""
    version = ""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        if ran.returncode == 0 and lines:
            version = lines[0]
        else:
            reason = reason or f"{command[0]} does not run"
    except (OSError, subprocess.TimeoutExpired):
        reason = reason or f"{command[0]} does not run"
    install = "npm install node@24" if "npm" in reason else f"apt-get install {' '.join(packages)}"
    entries[lang] = {
        "present": not reason,
        "version": version,
        "packages": packages,
        "reason": reason,
        "install": "" if not reason else install,
    }
pathlib.Path(output).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
