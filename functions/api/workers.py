"""The threads of the door. Operations are synchronous; what may wait long never takes a thread from what may not.

`quick` serves admission, listings, health and pieces of transfers. `runs` and `writes` wait for a session's lock or
for a program: each has threads of its own, and one caller more than they hold is refused with 429 at once.

One project has few of the quick threads at once, and waits for itself beyond: a project that asks for all it can get
slows another one down, and does not keep it out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.types import Receive

from shared.errors import Code, Failure
from shared.limits import Limits
from shared.operations.base import Cancel

P = ParamSpec("P")
T = TypeVar("T")

_QUICK = 40
_SHARE = 8
"""Quick threads of one project: enough for one interpreter, of which each thread more takes a slice of all others."""
_PROJECT: ContextVar[str | None] = ContextVar("project", default=None)
_RETRY_S = 2


class Workers:
    """The thread limits of one application, and the calls that can be stopped."""

    def __init__(self, limits: Limits) -> None:
        self._quick = CapacityLimiter(_QUICK)
        self._shares: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        self.runs = CapacityLimiter(limits.run_queue)
        self.writes = CapacityLimiter(limits.run_queue)
        self._stoppable: set[Cancel] = set()
        self._streams: set[asyncio.Event] = set()
        self._streams_end = False
        self._ending = False

    async def quick(self, code: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run in a thread what does not wait."""
        work = partial(code, *args, **kwargs)
        project = _PROJECT.get()
        if project is None:
            return await anyio.to_thread.run_sync(work, limiter=self._quick)
        share = self._shares.get(project)
        if share is None:
            share = self._shares[project] = CapacityLimiter(_SHARE)
        async with share:
            return await anyio.to_thread.run_sync(work, limiter=self._quick)

    @contextlib.contextmanager
    def serving(self, project: str | None) -> Iterator[None]:
        """What the block awaits is a project's; None: nobody's."""
        before = _PROJECT.set(project)
        try:
            yield
        finally:
            _PROJECT.reset(before)

    async def finish(self, code: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run in a thread what must be done also when the request is cancelled."""
        with anyio.CancelScope(shield=True):
            await self.quick(code, *args, **kwargs)

    async def slow(self, limiter: CapacityLimiter, code: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run in a thread what may wait long. Errors: 429 when every thread of its kind is taken."""
        if limiter.available_tokens <= 0 or limiter.statistics().tasks_waiting:
            raise Failure(Code.RATE_LIMITED, retry_after=_RETRY_S)
        return await anyio.to_thread.run_sync(partial(code, *args, **kwargs), limiter=limiter)

    async def stoppable(self, receive: Receive, cancel: Cancel, work: Awaitable[T]) -> T:
        """Await `work`; when the client goes away meanwhile, fire `cancel` and still wait for the end.

        Errors: 503 where not the client went away but the service ends.
        """
        watch = asyncio.ensure_future(self._watch(receive, cancel))
        self._stoppable.add(cancel)
        try:
            return await work
        except Failure as failure:
            if failure.code is Code.CANCELLED and self._ending:
                raise Failure(Code.EXECUTOR_UNAVAILABLE) from None
            raise
        except asyncio.CancelledError:
            cancel()
            raise
        finally:
            self._stoppable.discard(cancel)
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch(self, receive: Receive, cancel: Cancel) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await self.quick(cancel)

    @contextlib.contextmanager
    def streaming(self) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set when streams have to end: the service does."""
        end = asyncio.Event()
        if self._streams_end:
            end.set()
        self._streams.add(end)
        try:
            yield end
        finally:
            self._streams.discard(end)

    def end_streams(self) -> None:
        """End every stream, and each that begins from now on. In the loop that serves them."""
        self._streams_end = True
        for end in tuple(self._streams):
            end.set()

    async def stop_all(self) -> None:
        """Stop every call that its client could stop: the service ends."""
        self._ending = True
        for cancel in tuple(self._stoppable):
            await self.quick(cancel)
