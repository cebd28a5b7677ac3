"""The root's own sitecustomize: the only one that Python's start can find.

The program lies outside the workspace but imports from it first, as if it lay there. It is started as
``python3 -P -s -X workspace=FOLDER PROGRAM``: ``-P`` keeps the program's own folder off the path, ``-s`` keeps a
``usercustomize`` from being looked for, and only then is the workspace on the path. A Python that the program
starts carries no such option and is left alone.
"""

import sys

_workspace = sys._xoptions.get("workspace")
if isinstance(_workspace, str):
    sys.path.insert(0, _workspace)
