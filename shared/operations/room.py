"""What an operation is handed: the ports, the limits and the clock. Nothing here knows a door or an adapter."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shared.domain.agents.publication import Publication
from shared.domain.manifest import Manifest
from shared.domain.session import Owner
from shared.errors import Code, Failure
from shared.executor.port import Executor
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.agents.engine import EngineTable
from shared.operations.agents.program import PROGRAMS
from shared.operations.held import Held
from shared.operations.jobs import Jobs
from shared.operations.lease import Heart
from shared.store.ports import Grant, Objects, State


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class UploadGrants(Protocol):
    """Who lets a client put the bytes of one key, of one size and digest, once, for a while."""

    def upload(self, key: str, *, size: int, sha256: str, expires_at: int) -> Grant:
        """The grant. `expires_at` is epoch seconds."""


class DownloadGrants(Protocol):
    """Who lets a client read the bytes of one key for a while, under a name and a media type."""

    def grant_download(self, key: str, *, seconds: int, name: str, media: str) -> Grant:
        """The grant. `name` is the file's own, for Content-Disposition."""


class RunQueue(Protocol):
    """Hands work that nobody waits for to a worker elsewhere. It is not trusted: what is stored says what may run."""

    def send(self, message: Mapping[str, str]) -> None:
        """Send `{"project", "run_id"}` or `{"project", "session"}`. Errors: StoreUnavailable."""


class RunMetrics(Protocol):
    """Counts runs. It never sees a name, a text or an id of anybody."""

    def run(self, *, lang: str, outcome: str, ms: Mapping[str, int], bytes_in: int, bytes_out: int) -> None:
        """One run has ended.

        `outcome` is ok, failed, time, memory, output, killed, or `error:` and the code of a Failure. `ms` has the
        phases that were reached, of wait, restore, run, collect and store, and always total. `bytes_in` is the program,
        its arguments and the files of its workspace at the start; `bytes_out` both outputs and the files that it
        changed. It must not raise.
        """


class Silence:
    """Counts nothing."""

    def run(self, *, lang: str, outcome: str, ms: Mapping[str, int], bytes_in: int, bytes_out: int) -> None:
        """Do nothing."""


class JwtVerifier(Protocol):
    """Whose token a Bearer is."""

    def caller(self, token: str, now: int) -> Caller | None:
        """The caller that a token proves at `now` (epoch milliseconds), or None: it proves nobody."""


Isolation = Literal["user", "session", "project"]
"""Who shares one environment of an executor that keeps tenants apart (DESIGN §7)."""


class Gate:
    """At most `limit` runs wait or work at once; one more is refused at once, not queued without end.

    One project holds at most `share` of the places. Where others hold some it gets no more than it leaves free, so that
    a newcomer finds a place however many projects take all they can get (cases.md K19).
    """

    def __init__(self, limit: int, share: int | None = None) -> None:
        self._limit = limit
        self._share = limit if share is None else min(share, limit)
        self._shared = self._share < limit
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._taken = 0

    def take(self, project: str) -> None:
        """Take a place, to be given back by `leave` from whatever thread. Errors: 429."""
        with self._lock:
            free = self._limit - self._taken
            held = self._held[project]
            if free <= 0 or held >= self._share or (self._shared and self._taken > held >= free):
                raise Failure(Code.RATE_LIMITED, retry_after=2)
            self._taken += 1
            self._held[project] += 1

    def leave(self, project: str) -> None:
        """Give a place back."""
        with self._lock:
            if self._held[project] < 1:
                raise ValueError("a place was given back twice")
            self._taken -= 1
            self._held[project] -= 1
            if not self._held[project]:
                del self._held[project]

    @contextmanager
    def enter(self, project: str) -> Iterator[None]:
        """Hold a place while the block runs. Errors: 429."""
        self.take(project)
        try:
            yield
        finally:
            self.leave(project)


class Bells:
    """Tells those of this process who wait for news of a partition that there are some. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Callable[[], None]]] = {}

    @contextmanager
    def listen(self, partition: str, news: Callable[[], None]) -> Iterator[None]:
        """Call `news`, from any thread and quickly done, with each news of the partition while the block runs."""
        with self._lock:
            self._waiting.setdefault(partition, set()).add(news)
        try:
            yield
        finally:
            with self._lock:
                self._waiting[partition].discard(news)
                if not self._waiting[partition]:
                    del self._waiting[partition]

    def ring(self, partition: str) -> None:
        """There are news."""
        with self._lock:
            waiting = tuple(self._waiting.get(partition, ()))
        for news in waiting:
            news()


@dataclass(frozen=True, slots=True)
class Hand:
    """A Turn that this process runs: what stops its programs, and whether it is over."""

    stop: Callable[[], None]
    over: threading.Event = field(default_factory=threading.Event)


class Hands:
    """The Turns that this process runs, by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, Hand] = {}
        self._queued: set[str] = set()
        self.ending = False
        """Whether the process ends: what is not begun is left to the next one."""

    @contextmanager
    def hold(self, turn: str, stop: Callable[[], None]) -> Iterator[None]:
        """Hold a Turn while the block runs. Where the process ends it is stopped at once."""
        hand = Hand(stop)
        with self._lock:
            self._held[turn] = hand
            ending = self.ending
        if ending:
            stop()
        try:
            yield
        finally:
            with self._lock:
                if self._held.get(turn) is hand:
                    del self._held[turn]
            hand.over.set()

    @contextmanager
    def queue(self, turn: str) -> Iterator[bool]:
        """Wait for a Turn while the block runs; False where somebody does already."""
        with self._lock:
            first = turn not in self._queued
            self._queued.add(turn)
        try:
            yield first
        finally:
            if first:
                with self._lock:
                    self._queued.discard(turn)

    def stop(self, turn: str) -> Hand | None:
        """Stop what a Turn runs; its hand, or None where this process does not hold it."""
        with self._lock:
            hand = self._held.get(turn)
        if hand is not None:
            hand.stop()
        return hand

    def stop_all(self) -> None:
        """Stop what every Turn runs: the process ends."""
        with self._lock:
            self.ending = True
            held = tuple(self._held.values())
        for hand in held:
            hand.stop()

    def ended(self, seconds: float) -> bool:
        """Wait until none is held, for so long at most; whether none is."""
        ends = time.monotonic() + seconds
        while self._held and time.monotonic() < ends:
            time.sleep(0.01)
        return not self._held


class Manifests(Held[Manifest]):
    """Decoded manifests by the text or the object that holds them. `entries` bounds all their paths together."""

    def __init__(self, entries: int) -> None:
        super().__init__(entries, len)


class Publications(Held[Publication]):
    """Decoded publications by the text or the object that holds them. `artifacts` bounds all their Artifacts together.

    An Artifact with a long path counts for several.
    """

    def __init__(self, artifacts: int) -> None:
        super().__init__(artifacts, lambda made: sum(1 + len(row.path) // 256 for row in made.artifacts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The ports of one deployment.

    `uploads` makes the upload grants of clients: the object store's own signature, or this service's. `downloads`
    makes their download grants where the store can, and None means that bytes pass through here. `secret` is the
    deployment's key for ids and signatures, born once in the store. `owner` names this process as a holder of locks.
    `dev_key` admits the development key. `closing` ends what was opened for the room. `runs` bounds the runs of this
    process, `background` runs what a caller does not wait for: a thread for each run that `runs` lets in, so that
    those that wait for one session hold up no other; with a `queue` a worker elsewhere runs it. `active` are the
    partitions of the records whose runs this process has in hand. `isolation` is the scope of an executor's tenants,
    `jwt` admits tokens beside keys. `bells` wakes the readers of event streams of this
    process, `hands` are the Turns that it runs, `jobs` those that wait for a
    place. `engines` run them, and
    `default_model` names that of an agent without a model.
    """

    state: State
    objects: Objects
    executor: Executor
    uploads: UploadGrants
    secret: bytes
    owner: Owner
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], int] = now_ms
    dev_key: bool = False
    heart: Heart = field(default_factory=lambda: Heart(Limits().lease_ms / 3000))
    closing: ExitStack = field(default_factory=ExitStack)
    runs: Gate = field(default_factory=lambda: Gate(Limits().run_queue, Limits().project_runs))
    background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(Limits().run_queue, "background"))
    active: set[str] = field(default_factory=set)
    manifests: Manifests = field(default_factory=lambda: Manifests(25_000))
    publications: Publications = field(default_factory=lambda: Publications(25_000))
    isolation: Isolation = "session"
    downloads: DownloadGrants | None = None
    queue: RunQueue | None = None
    metrics: RunMetrics = field(default_factory=Silence)
    jwt: JwtVerifier | None = None
    bells: Bells = field(default_factory=Bells)
    hands: Hands = field(default_factory=Hands)
    jobs: Jobs = field(default_factory=Jobs)
    engines: EngineTable = PROGRAMS
    default_model: str | None = None
