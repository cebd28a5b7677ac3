"""Object keys as file names. What is not a key has no path, so no text of a caller's ever names a file outside.

    key        s/session/pack-1
    file       s.d/session.d/pack-1.o

A segment becomes a folder `.d` or, at the end, a file `.o`: the key `a` and the key `a/b` live side by side.
The first 200 characters of a segment that long become a folder `.c` of their own, since a file name has 255 at
most. A dot is in no key, so the three kinds, temporary files and foreign files are told apart by their end.
"""

from __future__ import annotations

from shared.store.names import check_key, is_key

FILE, FOLDER, CHUNK = ".o", ".d", ".c"
_CHUNK = 200


def _segment(segment: str, end: str) -> str:
    parts = []
    while len(segment) >= _CHUNK:
        parts.append(segment[:_CHUNK] + CHUNK)
        segment = segment[_CHUNK:]
    return "/".join([*parts, segment + end])


def file_of(key: str) -> str:
    """The relative path of a key's file. ValueError for what is not a key."""
    *folders, last = check_key(key).split("/")
    return "/".join([*(_segment(folder, FOLDER) for folder in folders), _segment(last, FILE)])


def folder_of(prefix: str) -> str:
    """The relative path of the folder of all keys that begin with `prefix`, which ends with `/`. ValueError."""
    if not prefix.endswith("/") or not is_key(prefix[:-1]):
        raise ValueError("not a prefix of object keys")
    return "/".join(_segment(folder, FOLDER) for folder in prefix[:-1].split("/"))


def token(name: str) -> str | None:
    """What a directory entry adds to the keys below it; None for an entry that is not ours.

    Sorted by token, the entries of a folder are in the order of their keys: a `.o` is one key, a `.d` adds the `/`,
    and no two of one folder have a key in common.
    """
    stem, end = name[:-2], name[-2:]
    if end == FILE or (end == CHUNK and len(stem) == _CHUNK):
        return stem
    return stem + "/" if end == FOLDER else None
