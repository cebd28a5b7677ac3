"""A multipart upload, read in pieces straight into stages of the object store: memory does not grow with a file.

`Form` is pushed bytes and never holds more than one field. Nothing that it stages is visible before the operation
commits it; `close` discards what was not committed. Source: exec.md A4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from functions.api.disposition import parse_part
from shared.errors import Code, Failure, invalid
from shared.limits import Limits
from shared.operations.room import Room
from shared.operations.transfer import Incoming, check_name
from shared.store.ports import Stage

# The parser's own log names bytes of the request (cases.md K20).
logging.getLogger("python_multipart").propagate = False
logging.getLogger("python_multipart").addHandler(logging.NullHandler())

HEADER_BYTES = 32_768
_FIELDS = 100
_FIELD_BYTES = 65_536
_ROWS = 1_000
_BEFORE_FILES = ("session_id", "read_only")
_LABELS = ("entity_id", "kind", "id", "version")
_PLAIN_ENCODINGS = (b"", b"7bit", b"8bit", b"binary")


@dataclass(slots=True)
class Fields:
    """The fields that decide something. The labels of older and newer clients are read, bounded and let go."""

    session_id: str | None = None
    read_only: bool = False


@dataclass(slots=True)
class _Part:
    name: str
    filename: str | None
    stage: Stage | None = None
    value: bytearray = field(default_factory=bytearray)


class Form:
    """A push parser. `begin` is called once with the fields, before the first byte of a file is staged.

    After `finish`, `files` are the staged files in order and `refused` the rows (name, why) of a batch's others.
    Errors of every method: Failure (400, 413, and what `begin` raises).
    """

    def __init__(self, boundary: bytes, room: Room, *, batch: bool, begin: Callable[[Fields], None]) -> None:
        self.fields = Fields()
        self.files: list[Incoming] = []
        self.refused: list[tuple[str, str]] = []
        self.limit_reached = False
        self._room = room
        self._batch = batch
        self._begin = begin
        self._stages = ExitStack()
        self._seen: set[str] = set()
        self._parts = 0
        self._staged_bytes = 0
        self._fed = 0
        self._ended = False
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._part: _Part | None = None
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._headers_begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._part_begin,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
            max_header_size=HEADER_BYTES,
        )

    @property
    def _limits(self) -> Limits:
        return self._room.limits

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body. Also what is refused counts: no body is read for ever."""
        self._fed += len(data)
        most = self._limits.workspace_bytes + _ROWS * HEADER_BYTES + _FIELDS * _FIELD_BYTES
        if self._fed > most:
            raise Failure(Code.TOO_LARGE, f"`body` must not be longer than {most} bytes")
        try:
            self._parser.write(data)
        except FormParserError:
            raise invalid("body", "is not readable multipart/form-data") from None

    def finish(self) -> None:
        """The body has ended."""
        if not self._ended:
            raise invalid("body", "ends before its multipart boundary")
        if not self.files and not self.refused:
            raise invalid("file", "is required: a part with a file name")

    def close(self) -> None:
        """Discard every stage that was not committed."""
        self._stages.close()

    def _headers_begin(self) -> None:
        self._headers = {}
        self._part = None

    def _header_end(self) -> None:
        name, value = (bytes(part) for part in self._header)
        self._header = (bytearray(), bytearray())
        if name.lower() in self._headers:
            raise invalid("body", "has a part with a header twice")
        self._headers[name.lower()] = value.strip()

    def _part_begin(self) -> None:
        # A client that encodes a part would have its bytes stored encoded: refused rather than corrupted.
        if self._headers.get(b"content-transfer-encoding", b"").lower() not in _PLAIN_ENCODINGS:
            raise invalid("Content-Transfer-Encoding", "of a part must be binary")
        about = parse_part(self._headers.get(b"content-disposition", b""))
        self._parts += 1
        self._part = _Part(about.name, about.filename)
        if about.filename is None:
            if self._parts - len(self.files) - len(self.refused) > _FIELDS:
                raise invalid("body", f"must not have more than {_FIELDS} fields")
            return
        self._file_begin(self._part, about.filename)

    def _file_begin(self, part: _Part, filename: str) -> None:
        if not self._batch and self.files:
            raise invalid("file", "must be one; the batch route takes more")
        if not self.files and not self.refused:
            self._begin(self.fields)
        if len(self.files) + len(self.refused) >= _ROWS:
            raise invalid("file", f"must not be more than {self._limits.batch_files} in one batch")
        try:
            check_name(filename, self._limits)
            if self._batch and len(self.files) >= self._limits.batch_files:
                self.limit_reached = True
                raise invalid("file", f"must not be more than {self._limits.batch_files} in one batch")
        except Failure as failure:
            self._refuse(filename, failure)
            return
        part.stage = self._stages.enter_context(self._room.objects.stage())
        self.files.append(Incoming(filename, part.stage))

    def _refuse(self, filename: str, failure: Failure) -> None:
        """A batch names a file that it does not take and goes on; a single upload is refused."""
        if not self._batch:
            raise failure
        self.refused.append((filename, failure.message))

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if part is None:
            raise invalid("body", "is not readable multipart/form-data")
        if part.filename is None:
            part.value += data[start:end]
            if len(part.value) > _FIELD_BYTES:
                raise invalid(part.name[:64], f"must not be longer than {_FIELD_BYTES} bytes")
        elif part.stage is not None:
            self._stage(part, part.filename, part.stage, data[start:end])

    def _stage(self, part: _Part, filename: str, stage: Stage, data: bytes) -> None:
        self._staged_bytes += len(data)
        if stage.size + len(data) > self._limits.upload_bytes:
            failure = Failure(Code.TOO_LARGE, f"`file` must not be larger than {self._limits.upload_bytes} bytes")
            self.files.pop()
            part.stage = None
            stage.__exit__(None, None, None)
            self._refuse(filename, failure)
        elif self._staged_bytes > self._limits.workspace_bytes:
            raise Failure(Code.TOO_LARGE, f"the files must not be larger than {self._limits.workspace_bytes} bytes")
        else:
            stage.write(data)

    def _part_end(self) -> None:
        part, self._part = self._part, None
        if part is not None and part.filename is None:
            self._take(part.name, bytes(part.value))

    def _take(self, name: str, raw: bytes) -> None:
        if name in _LABELS:
            _text(name, raw, self._limits.label_bytes)
        if name not in _BEFORE_FILES:
            return
        if self.files or self.refused:
            raise invalid(name, "must come before the files")
        if name in self._seen:
            raise invalid(name, "must not be sent more than once")
        self._seen.add(name)
        value = _text(name, raw, self._limits.label_bytes)
        if not value:
            raise invalid(name, "must not be empty")
        if name == "session_id":
            self.fields.session_id = value
        elif value in ("true", "false"):
            self.fields.read_only = value == "true"
        else:
            raise invalid(name, "must be true or false")

    def _end(self) -> None:
        self._ended = True


def _text(name: str, raw: bytes, limit: int) -> str:
    if len(raw) > limit:
        raise invalid(name, f"must not be longer than {limit} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid(name, "must be UTF-8") from None
    if "\0" in text:
        raise invalid(name, "must not contain NUL")
    return text
