"""`Content-Disposition`, both ways: of an uploaded part (RFC 7578, as clients really write it) and of a download.

A file name is kept whole, folders too (exec.md A4); whether it is a path that a workspace may hold is the operation's
to say. Nothing is cleaned up here: what cannot be read is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from shared.errors import invalid

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_KIND = re.compile(rb"[ \t]*(" + _TOKEN + rb")[ \t]*")
_PARAMETER = re.compile(
    rb";[ \t]*(?:(" + _TOKEN + rb')[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"\s]*)))?[ \t]*(?=;|\Z)', re.DOTALL
)
_EXTENDED = re.compile(rb"([A-Za-z0-9!#$%&+\-^_`{}~]+)'[A-Za-z0-9-]*'((?:[^%]|%[0-9A-Fa-f]{2})*)", re.DOTALL)
_BOUNDARY = re.compile(r"(?:^|;)\s*boundary\s*=\s*(?:\"([^\"]*)\"|([^;\s]*))", re.IGNORECASE)
_BOUNDARY_BYTES = 200
_BROWSER_ESCAPES = {b"%22": b'"', b"%0D": b"\r", b"%0A": b"\n"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part's name and, of a file, its file name."""

    name: str
    filename: str | None


def parse_part(value: bytes) -> Part:
    """Read the header of a part. `filename*` wins over `filename`. Errors: 400 naming what is wrong."""
    kind = _KIND.match(value)
    if kind is None or kind[1].lower() != b"form-data":
        raise invalid("Content-Disposition", "of a part must be form-data")
    params: dict[bytes, bytes] = {}
    at = kind.end()
    while at < len(value):
        found = _PARAMETER.match(value, at)
        if found is None:
            raise invalid("Content-Disposition", "of a part cannot be read")
        at = found.end()
        if found[1] is None:
            continue
        key = found[1].lower()
        if key in params:
            raise invalid("Content-Disposition", "of a part must not name a parameter twice")
        params[key] = _unquoted(found[2]) if found[2] is not None else found[3]
    if b"name" not in params:
        raise invalid("Content-Disposition", "of a part must have a name")
    return Part(_text(params[b"name"], "name"), _filename(params))


def _filename(params: dict[bytes, bytes]) -> str | None:
    if any(key.startswith(b"filename*") and key != b"filename*" for key in params):
        raise invalid("filename", "must not be sent in continued parts")
    if (extended := params.get(b"filename*")) is not None:
        found = _EXTENDED.fullmatch(extended)
        if found is None or found[1].lower() != b"utf-8":
            raise invalid("filename*", "must be of the form UTF-8''percent-encoded")
        return _text(unquote_to_bytes(found[2]), "filename*")
    if (plain := params.get(b"filename")) is None:
        return None
    # Browsers and axios write these three, upper case, and escape no percent sign (WHATWG, multipart/form-data).
    for escape, char in _BROWSER_ESCAPES.items():
        plain = plain.replace(escape, char)
    return _text(plain, "filename")


def _unquoted(raw: bytes) -> bytes:
    """Undo `\\"` and `\\\\`. A backslash before anything else is the client's own: browsers escape none."""
    return re.sub(rb'\\(["\\])', rb"\1", raw)


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid(name, "must be UTF-8") from None


def attachment(path: str) -> str:
    """The header of a download: an ASCII fallback and the exact last segment of its path (RFC 6266, cases.md C2)."""
    name = path.rpartition("/")[2]
    fallback = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in name)
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe='')}"


def boundary(content_type: str | None) -> bytes:
    """The boundary of a multipart body. Errors: 400 naming the header, or `boundary`."""
    kind, _, rest = (content_type or "").partition(";")
    if kind.strip().lower() != "multipart/form-data":
        raise invalid("Content-Type", "must be multipart/form-data with a boundary")
    found = _BOUNDARY.search(rest)
    value = (found[1] if found[1] is not None else found[2]) if found else ""
    if not value:
        raise invalid("boundary", "is required in Content-Type")
    if len(value) > _BOUNDARY_BYTES or not value.isascii():
        raise invalid("boundary", f"must be ASCII of at most {_BOUNDARY_BYTES} characters")
    return value.encode("ascii")
