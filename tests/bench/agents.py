"""Turns, lists and captures of the Agents API, measured through HTTP: time and the service's peak memory."""

from __future__ import annotations

import base64
import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.bench.measures import Row
from tests.bench.service import Service

_SESSIONS = "/v1/agents/sessions"
_MIB = 1 << 20


def _client(service: Service) -> httpx.Client:
    headers = {"Authorization": f"Bearer {service.key}", "OpenAI-Beta": "agents=v1"}
    return httpx.Client(base_url=service.address, headers=headers, timeout=300, trust_env=False)


def _session(client: httpx.Client) -> dict[str, Any]:
    body = {"agent": {"model": "program:bash"}, "environment": {"type": "openai_hosted"}}
    answer = client.post(_SESSIONS, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _turn(client: httpx.Client, session: str, program: str) -> float:
    """Milliseconds from opening the stream of events to the idle Session behind a completed Turn."""
    said = {"role": "user", "content": [{"type": "input_text", "text": program}]}
    batch = {"events": [{"type": "agent.session.input.message", "input": [said]}]}
    with client.stream("GET", f"{_SESSIONS}/{session}/events") as stream:
        begun = time.perf_counter()
        answer = client.post(f"{_SESSIONS}/{session}/events", json=batch)
        assert answer.status_code == 202, answer.text
        ended = ""
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            frame = json.loads(line[6:])
            if frame["type"].startswith("agent.session.turn.") and frame["type"].count(".") == 3:
                ended = frame["type"]
            if frame["type"] == "agent.session.idle":
                break
        spent = (time.perf_counter() - begun) * 1000
    assert ended == "agent.session.turn.completed", ended
    return spent


def _artifacts(client: httpx.Client, session: str) -> int:
    """How many Artifacts the Session has."""
    count, after = 0, ""
    while True:
        page = client.get(f"{_SESSIONS}/{session}/artifacts?limit=100{after}").json()
        count += len(page["data"])
        if not page["has_more"]:
            return count
        after = f"&after={page['last_id']}"


def _watched(service: Service, work: Callable[[], float], rounds: int) -> tuple[str, str]:
    """The median of some rounds, and the service's peak memory above its memory before."""
    before = service.memory()
    service.reset_peak()
    times = [work() for _ in range(rounds)]
    return f"{statistics.median(times):.0f}", f"{service.memory('VmHWM') - before:.1f}"


def agents(service: Service, rounds: int) -> list[Row]:
    """One row for each thing that is measured."""
    rows: list[Row] = []
    with _client(service) as client:
        session = _session(client)["id"]
        counter = iter(range(1_000))

        def turn() -> float:
            return _turn(client, session, f"mkdir -p outputs; echo {next(counter)} > outputs/a.txt")

        turn()
        rows.append(["a Turn of program:bash with one Artifact", *_watched(service, turn, rounds)])
        assert _artifacts(client, session) == rounds + 1
        rows.append(["a list of 1,000 files, page by page", *_watched(service, _listing(client), max(3, rounds // 3))])
        rows.append(["a file of 1 MiB into an Environment", *_watched(service, _writing(client), max(3, rounds // 3))])
        rows.append(["a capture of 4,096 files", *_watched(service, lambda: _many(client), max(1, rounds // 5))])
        rows.append(["a capture of 500 MiB", *_watched(service, lambda: _large(client), max(1, rounds // 5))])
        rows.append(["100 Sessions with a Turn each at once", *_watched(service, lambda: _crowd(service), 1)])
    return rows


def _listing(client: httpx.Client) -> Callable[[], float]:
    made = _session(client)
    _turn(client, made["id"], "for i in $(seq 1000); do echo $i > f$i.txt; done")

    def work() -> float:
        begun = time.perf_counter()
        count, page = 0, ""
        while True:
            answer = client.get(f"/v1/agents/environments/{made['environment']['id']}/files?limit=100{page}").json()
            count += len(answer["data"])
            if not answer["has_more"]:
                break
            page = f"&page={answer['next']}"
        assert count == 1_000
        return (time.perf_counter() - begun) * 1000

    return work


def _writing(client: httpx.Client) -> Callable[[], float]:
    made = _session(client)
    data = base64.b64encode(bytes(_MIB)).decode()
    counter = iter(range(1_000))

    def work() -> float:
        body = {"type": "inline", "data": data, "path": f"/workspace/f{next(counter)}"}
        begun = time.perf_counter()
        answer = client.post(f"/v1/agents/environments/{made['environment']['id']}/files", json=body)
        assert answer.status_code == 201, answer.text
        return (time.perf_counter() - begun) * 1000

    return work


def _many(client: httpx.Client) -> float:
    session = _session(client)["id"]
    spent = _turn(client, session, "mkdir outputs; cd outputs; for i in $(seq 4096); do echo $i > $i; done")
    assert _artifacts(client, session) == 4_096
    return spent


def _large(client: httpx.Client) -> float:
    session = _session(client)["id"]
    spent = _turn(
        client,
        session,
        "mkdir outputs; for i in 1 2 3 4 5; do head -c 104857600 /dev/urandom > outputs/$i; done",
    )
    assert _artifacts(client, session) == 5
    client.delete(f"{_SESSIONS}/{session}")
    return spent


def _crowd(service: Service) -> float:
    """Milliseconds until the last of 100 Sessions is idle behind its Turn."""
    wrong: list[BaseException] = []

    # A client's own start takes longer than a Turn.
    clients = [_client(service) for _ in range(100)]

    def one(client: httpx.Client) -> None:
        try:
            with client:
                _turn(client, _session(client)["id"], "mkdir outputs; echo hello > outputs/a.txt")
        except BaseException as error:  # counted below, whatever it is
            wrong.append(error)

    threads = [threading.Thread(target=one, args=(client,)) for client in clients]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    return (time.perf_counter() - begun) * 1000
