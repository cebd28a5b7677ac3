"""Media types by file name, the same on every machine."""

from __future__ import annotations

import mimetypes

_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/markdown", ".md")
_TYPES.add_type("application/x-ndjson", ".jsonl")
_TYPES.add_type("application/x-parquet", ".parquet")
_TYPES.add_type("text/x-python", ".py")
_TYPES.add_type("image/webp", ".webp")


def content_type(name: str) -> str:
    """The media type of a name, by a table that does not depend on the machine."""
    kind, encoding = _TYPES.guess_type("file:" + name.rpartition("/")[2].replace(":", "_"))
    return kind if kind is not None and encoding is None else "application/octet-stream"
