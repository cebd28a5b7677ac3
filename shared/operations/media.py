"""Media types by file name, the same on every machine."""

from __future__ import annotations

import mimetypes
from functools import lru_cache

_UNKNOWN = "application/octet-stream"
_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/markdown", ".md")
_TYPES.add_type("application/x-ndjson", ".jsonl")
_TYPES.add_type("application/x-parquet", ".parquet")
_TYPES.add_type("text/x-python", ".py")
_TYPES.add_type("image/webp", ".webp")


def content_type(name: str) -> str:
    """The media type of a name, by a table that does not depend on the machine."""
    _, *extensions = name.rpartition("/")[2].lstrip(".").split(".")
    return _by_extension(".".join(extensions[-2:])) if extensions else _UNKNOWN


@lru_cache(1_024)
def _by_extension(extension: str) -> str:
    kind, encoding = _TYPES.guess_type("file:x." + extension.replace(":", "_"))
    return kind if kind is not None and encoding is None else _UNKNOWN
