"""Preparing an Environment: its initial files, then its setup commands, then connected (agents.md 2, 11.8, 11.39).

    T{SH attempts + 1, WH locked} ── files into the version ── each command on it ── T{WH version, SH connected, frame}

Nothing is committed between the two, so that a second attempt begins clean. A crash leaves `pending` and a lease that
lapses. What the caller's own files or commands get wrong fails the Environment at once; what the service gets wrong is
tried once more.
"""

from __future__ import annotations

import logging

from shared.domain import session as locks
from shared.domain.agents import destination, events, lifecycle
from shared.domain.agents.destination import Content
from shared.domain.agents.events import Source
from shared.domain.agents.refusals import Refused
from shared.domain.manifest import Manifest
from shared.domain.session import Fenced
from shared.errors import Failure
from shared.identity import Caller
from shared.operations import names, workspace
from shared.operations.agents import seeing
from shared.operations.agents.config import Config, InitialFile, describe
from shared.operations.agents.sending import send
from shared.operations.agents.session import Draft, Found, again, need, put_head, swap
from shared.operations.agents.writing import sizes
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.operations.sources import find_source
from shared.operations.step import Program, beyond, step
from shared.operations.workspace import Opened
from shared.store.ports import Conflict, ObjectMissing, PutIf, StoreUnavailable

_LOG = logging.getLogger("workroom.turn")


class _Unpreparable(Exception):
    """The Environment's own files or commands do not work."""


def provision(room: Room, found: Found, budget: Budget) -> None:
    """One attempt, if it is to be had. The Environment is then connected, failed, or pending with an attempt less."""
    begun = _begin(room, found)
    if begun is None:
        return
    found, opened = begun
    cancel = Cancel()

    def beat() -> None:
        try:
            workspace.renew(room, opened)
        except Fenced:
            cancel()
            raise

    try:
        # An attempt whose lease lapsed may still be in hand beside this one.
        with room.hands.hold(f"{found.environment} {opened.head.fence}", cancel), room.heart.keep(beat):
            config = describe(room, found).config
            manifest = _installed(room, opened, config)
            manifest = _set_up(room, opened, config, manifest, cancel, budget)
            _connect(room, found, opened, manifest)
    except _Unpreparable:
        if room.hands.ending:
            # What ends the process may have killed the command.
            _give_back(room, found, opened)
            return
        seeing.settle(room, need(room, found.project, found.session), "provision_failed")
    except Fenced:
        return
    except (Failure, StoreUnavailable) as error:
        _LOG.warning("an Environment was not prepared: %s", type(error).__name__)
        if room.hands.ending:
            _give_back(room, found, opened)
        else:
            workspace.release(room, opened)


def _give_back(room: Room, found: Found, opened: Opened) -> None:
    """An attempt that the end of this process cut off does not count: the next process has it.

    Where the store does not answer it counts, and its lease lapses.
    """

    def decide(draft: Draft) -> None:
        item = room.state.get(found.partition, names.HEAD)
        if item is None or draft.head.environment.status != "pending":
            return
        try:
            free = locks.release(locks.Head.of(item.attributes), opened.head.fence)
        except Fenced:
            return
        draft.head = lifecycle.unprovisioned(draft.head)
        draft.actions.append(PutIf(item.partition, item.sort, item.version, free.attributes()))

    try:
        swap(room, need(room, found.project, found.session), decide)
    except (Conflict, Failure, StoreUnavailable):
        return


def _begin(room: Room, found: Found) -> tuple[Found, Opened] | None:
    opened = workspace.at(room, found.project, found.session)
    head = None if opened is None else locks.acquire(opened.head, room.owner, room.clock(), room.limits.lease_ms)
    if opened is None or head is None:
        return None
    session = lifecycle.provisioning(found.head)
    locked = PutIf(opened.partition, names.HEAD, opened.version, head.attributes())
    try:
        version, mine = room.state.transact([put_head(found, session), locked])
    except Conflict:
        return None
    return (
        Found(found.project, found.session, version, session),
        Opened(opened.project, opened.session, mine, head),
    )


def _installed(room: Room, opened: Opened, config: Config) -> Manifest:
    """The version with the initial files; they do replace what is there."""
    contents = {file.path: _content(room, opened, file) for file in config.files}
    try:
        return destination.install(workspace.manifest_of(room, opened.head), contents, sizes(room.limits))
    except Refused as refused:
        raise _Unpreparable from refused


def _content(room: Room, opened: Opened, file: InitialFile) -> Content:
    """The bytes of a file: inline ones lie in the Session already, a source file's are copied now."""
    now = room.clock()
    if not file.file_id:
        return Content(size=file.size, sha256=file.sha256, blob=file.blob, offset=file.offset, now=now)
    try:
        row = find_source(room, opened.project, file.file_id).attributes
        key = workspace.new_key(opened)
        with room.objects.stage() as stage:
            for piece in room.objects.read(row["key"]):
                stage.write(piece)
            if stage.sha256 != file.sha256:
                raise StoreUnavailable("a source file")
            stage.commit(key)
    except (Failure, ObjectMissing) as error:
        # It was deleted between the Session's creation and now.
        raise _Unpreparable from error
    return Content(size=file.size, sha256=file.sha256, blob=key, now=now)


def _set_up(room: Room, opened: Opened, config: Config, manifest: Manifest, cancel: Cancel, budget: Budget) -> Manifest:
    """The version behind the setup commands, each a run of bash in /workspace."""
    tenant = names.tenant(room.secret, room.isolation, Caller(opened.project, ""), None, opened.session)
    for command in config.setup:
        program = Program(
            lang="bash",
            code=command,
            wall_ms=budget.run_ms(room.limits.setup_ms),
            env=config.env,
            tenant=tenant,
        )
        stepped = step(room, opened, manifest.without_kind("other"), program, cancel, budget)
        if stepped.answer.code != 0 or stepped.answer.lost or beyond(room.limits, manifest, stepped.merged.manifest):
            raise _Unpreparable
        manifest = stepped.merged.manifest
    return manifest


def _connect(room: Room, found: Found, opened: Opened, manifest: Manifest) -> None:
    """Commit the version, and the Environment as connected, in one transaction. Errors: Fenced."""
    where = workspace.place(room, opened, manifest)
    while True:
        draft = Draft.on(room, found)
        try:
            draft.head = lifecycle.connected(draft.head, draft.now)
        except ValueError:
            raise Fenced from None
        kind = draft.head.environment.kind
        draft.tell(events.environment_frame(Source(found.session), found.environment, kind, "connected"))
        head, actions = draft.closed()
        whole = [put_head(found, head), *actions]
        try:
            send(room, whole, lambda whole=whole: workspace.swap_manifest(room, opened, where, whole))  # type: ignore[misc]
        except Conflict as conflict:
            try:
                found = again(found, conflict)
            except (Conflict, Failure):
                raise Fenced from None
            continue
        room.bells.ring(found.partition)
        return
