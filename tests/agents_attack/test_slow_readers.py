"""A client that reads slowly holds a small part of what is told, however much that is (agents.md 5.3)."""

from __future__ import annotations

from shared.domain.agents import events
from shared.domain.agents.events import Source
from shared.operations import names
from shared.operations.agents import streams
from shared.operations.agents.session import event_record
from tests.fakes import House

RECORD = 60_000
RECORDS = 20


def test_a_reader_of_large_records_holds_few_of_them_and_misses_none(house: House) -> None:
    """It held eight, 2.5 MB: two hundred slow readers were a gigabyte."""
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}}
    session = house.do("sessions.create", body).id
    stream = streams.open_stream(house.room, house.project, session, creation=False)
    partition = names.session(house.project, session)
    told = []
    for number in range(RECORDS):
        texts = [chr(ord("a") + number) * RECORD, f"small {number}"] if number != 7 else ["small alone"]
        frames = [events.command_delta(Source(session, "turn_x"), "item_x", 0, text) for text in texts]
        house.state.transact([event_record(partition, 1_000 + number * 10, frames, house.clock())])
        told += texts
    got, most = [], 0
    while frames := stream.more():
        got += [frame["delta"] for frame in frames]
        most = max(most, sum(len(frame["delta"]) for frame in [*frames, *stream._waiting]))
    assert got == told
    assert most <= 4 * RECORD


def test_a_reader_of_small_records_reads_several_at_once(house: House) -> None:
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}}
    session = house.do("sessions.create", body).id
    stream = streams.open_stream(house.room, house.project, session, creation=False)
    partition = names.session(house.project, session)
    for number in range(RECORDS):
        frames = [events.command_delta(Source(session, "turn_x"), "item_x", 0, str(number))]
        house.state.transact([event_record(partition, 1_000 + number, frames, house.clock())])
    looks = 0
    while stream.more():
        looks += 1
    assert looks < RECORDS / 2
