"""Reading the event stream of a Session, without a door: which frames, full, and where it ends (agents.md 5.3).

    live       cursor = the head's sequence ── records behind it ── until the `error` of a failed Environment
    creation   cursor = 0 ───────────────────── records behind it ── until the idle that follows its Turn, or `failed`

A record is one transaction's frames, so the cursor always stands between two transactions and nothing is told twice
or left out. Either ends when the Session is deleted. What a reader holds is bounded: a few records as they are stored,
the Session's description and one item.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from shared.agents_errors import Refusal
from shared.domain.agents.events import FROM_SESSION, Frame
from shared.domain.agents.stored import Ending, full, needs
from shared.operations.agents import config, large, places
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Found, find, need
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

_RECORDS = 8
"""Records of one look at the store; each has at most MAX_ITEM_BYTES."""
_HELD = 128 * 1024
"""Characters of them that a reader holds; the record that goes beyond is the last one that it keeps. Hundreds of
clients may read slowly at once."""
_FRAMES = 64
"""Frames that are handed out at once."""


def open_stream(room: Room, project: str, session: str, *, creation: bool) -> Stream:
    """The stream of a Session. A live one begins behind what is committed now, a creation's at the beginning.

    Errors: 404; StoreUnavailable.
    """
    found = need(room, project, session)
    return Stream(room, found, 0 if creation else found.head.sequence, creation=creation)


class Stream:
    """A reader of one stream. One thread at a time. `over` once nothing will come any more."""

    def __init__(self, room: Room, found: Found, cursor: int, *, creation: bool) -> None:
        self._room = room
        self._found = found
        self._after = places.event(cursor)
        self._ending = Ending(creation)
        self._gone = False
        self._records = _RECORDS
        self._waiting: deque[Frame] = deque()
        self._session: dict[str, Any] | None = None
        self._item: tuple[str, dict[str, Any]] = ("", {})

    @property
    def partition(self) -> str:
        """The partition whose bell rings with each record."""
        return self._found.partition

    @property
    def over(self) -> bool:
        """Whether nothing will come any more: the stream was read to its end, or the Session is gone."""
        return self._gone or self._ending.over

    def more(self) -> list[Frame]:
        """The next frames, full and in order; none where there are none now. At most one item's text is in them.

        Errors: StoreUnavailable; the frames that it was about come with the next call.
        """
        if not self.over and not self._waiting:
            self._look()
        frames: list[Frame] = []
        while self._waiting and len(frames) < _FRAMES and not self.over:
            frame = self._waiting[0]
            wanted = needs(frame)
            if frames and wanted is not None and wanted != self._item[0]:
                break
            try:
                made = self._full(frame, wanted)
            except StoreUnavailable:
                if not frames:
                    raise
                break
            if made is None:
                break
            self._waiting.popleft()
            frames.append(made)
            self._ending = self._ending.after(frame)
        return frames

    def check(self) -> bool:
        """Look whether the Session is still there, and do what is due in it; where it is not, the stream is over.

        Errors: StoreUnavailable.
        """
        found = find(self._room, self._found.project, self._found.session)
        try:
            self._gone = found is None or seen(self._room, found) is None
        except Refusal:
            self._gone = True
        return not self._gone

    def _look(self) -> None:
        """Read the records behind the cursor. What frames are filled from has to be read after them: it may be newer,
        never older."""
        rows = self._room.state.query(self.partition, places.EVENTS, after=self._after, limit=self._records)
        self._session, self._item = None, ("", {})
        held = 0
        for row in rows:
            self._waiting.extend(row.attributes["frames"])
            self._after = row.sort
            held += sum(map(_characters, row.attributes["frames"]))
            if held > _HELD:
                break
        # Where records are large, those behind the last one are read again: then they come one by one.
        self._records = 1 if held > _HELD else _RECORDS

    def _full(self, frame: Frame, wanted: str | None) -> Frame | None:
        """The frame as it is sent; None where the Session went before it could be filled."""
        session: dict[str, Any] = {}
        item: dict[str, Any] | None = None
        if frame.get(FROM_SESSION):
            if self._session is None and not self._describe():
                return None
            session = self._session or {}
        if wanted is not None:
            if self._item[0] != wanted and not self._read(wanted):
                return None
            item = self._item[1]
        return full(frame, session, item)

    def _describe(self) -> bool:
        try:
            self._session = config.unchanging(self._found, config.describe(self._room, self._found))
        except StoreUnavailable as error:
            return self._lost(error)
        return True

    def _read(self, ident: str) -> bool:
        try:
            row = self._room.state.get(self.partition, places.ITEMS + ident)
            if row is None:
                raise StoreUnavailable("an item of a Session")
            self._item = (ident, large.value(self._room, row.attributes))
        except StoreUnavailable as error:
            return self._lost(error)
        return True

    def _lost(self, error: StoreUnavailable) -> bool:
        """What a frame is about cannot be read: the Session is gone, or it is the store's fault, which is raised."""
        if self.check():
            raise error
        return False


def _characters(frame: Frame) -> int:
    return sum(len(value) for value in frame.values() if isinstance(value, str))
