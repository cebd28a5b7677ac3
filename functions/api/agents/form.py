"""A multipart body of this contract: one file part and a few fields, each once, in any order (agents.md 7).

Pushed bytes go straight into a stage of the object store: memory does not grow with the file. Nothing is committed
here; `close` discards what nobody took.
"""

from __future__ import annotations

from contextlib import ExitStack

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from functions.api.disposition import parse_part
from functions.api.multipart import HEADER_BYTES
from shared.agents_errors import Fault, Refusal
from shared.operations.room import Room
from shared.store.ports import Stage

SLACK_BYTES = 64 * 1024
"""What a body may have beside its file."""
_FIELD_BYTES = 1_024
_ENCODINGS = (b"content-encoding", b"content-transfer-encoding")


def _bad(message: str, param: str | None = None) -> Refusal:
    return Refusal(Fault.LOCAL, message, param=param)


class OneFile:
    """A push parser. `part` is the name of the file's part, `fields` those of the others, `most` the file's limit.

    After `finish`, `stage` has the bytes, `filename` the file's name as sent (None where the part has none) and
    `values` the fields. Errors of every method: 400, 413, StoreUnavailable.
    """

    def __init__(self, boundary: bytes, room: Room, *, part: str, fields: tuple[str, ...], most: int) -> None:
        self.filename: str | None = None
        self.values: dict[str, str] = {}
        self.stage: Stage | None = None
        self._room = room
        self._part = part
        self._fields = fields
        self._most = most
        self._fed = 0
        self._ended = False
        self._name = ""
        self._value = bytearray()
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._stages = ExitStack()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._opened,
                "on_part_data": self._data,
                "on_part_end": self._closed,
                "on_end": self._end,
            },
            max_header_size=HEADER_BYTES,
        )

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._fed += len(data)
        if self._fed > self._most + SLACK_BYTES:
            raise Refusal(Fault.TOO_LARGE)
        try:
            self._parser.write(data)
        except FormParserError:
            raise _bad("The body is not readable multipart/form-data.") from None

    def finish(self) -> Stage:
        """The body has ended: the stage with the file's bytes."""
        if not self._ended:
            raise _bad("The body ends before its multipart boundary.")
        if self.stage is None:
            raise _bad(f"{self._part} is required.", self._part)
        for name in self._fields:
            if name not in self.values:
                raise _bad(f"{name} is required.", name)
        return self.stage

    def close(self) -> None:
        """Discard the bytes that were not committed."""
        self._stages.close()

    def _begin(self) -> None:
        self._headers = {}

    def _header_end(self) -> None:
        name, value = (bytes(part) for part in self._header)
        self._header = (bytearray(), bytearray())
        if name.lower() in self._headers:
            raise _bad("A part must not have a header twice.")
        self._headers[name.lower()] = value.strip()

    def _opened(self) -> None:
        if any(name in self._headers for name in _ENCODINGS):
            raise _bad("A part must not be encoded.")
        about = parse_part(self._headers.get(b"content-disposition", b""))
        if about.name == self._part:
            if self.stage is not None:
                raise _bad(f"{self._part} must not be sent more than once.", self._part)
            self.filename = about.filename
            self.stage = self._stages.enter_context(self._room.objects.stage())
        elif about.name in self._fields:
            if about.name in self.values:
                raise _bad(f"{about.name} must not be sent more than once.", about.name)
            if about.filename is not None:
                raise _bad(f"{about.name} must not be a file.", about.name)
        else:
            raise _bad("The body has a part that is not supported.")
        self._name, self._value = about.name, bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == self._part:
            assert self.stage is not None
            if self.stage.size + end - start > self._most:
                raise Refusal(Fault.TOO_LARGE)
            self.stage.write(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _FIELD_BYTES:
            raise _bad(f"{self._name} must not be longer than {_FIELD_BYTES} bytes.", self._name)

    def _closed(self) -> None:
        if self._name != self._part:
            self.values[self._name] = bytes(self._value).decode("utf-8", "replace")

    def _end(self) -> None:
        self._ended = True
