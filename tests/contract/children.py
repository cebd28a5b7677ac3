"""Child processes of the suite: they work on a store and say on a pipe what was acknowledged.

python -m <package>.children ADAPTER FOLDER WORK NUMBER
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from shared.store.ports import Action, Conflict, Objects, PutIf, PutNew, State

from .adapters import ADAPTERS, create, environment

WRITERS = 3
ITEMS = 6
OBJECT_BYTES = 300_000


def _command(adapter: str, folder: Path, work: str, number: int) -> tuple[list[str], dict[str, str]]:
    arguments = [sys.executable, "-m", f"{__package__}.children", adapter, str(folder), work, str(number)]
    return arguments, {**os.environ, **environment(adapter), "PYTHONPATH": os.pathsep.join(sys.path)}


def output(adapter: str, folder: Path, work: str, number: int) -> str:
    """What a child says that comes to its end by itself."""
    arguments, variables = _command(adapter, folder, work, number)
    return subprocess.run(arguments, env=variables, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def killed(adapter: str, folder: Path, work: str, number: int, *, lines: int, seconds: float) -> list[str]:
    """What a child had said when it was killed: `seconds` after its line number `lines`."""
    arguments, variables = _command(adapter, folder, work, number)
    with subprocess.Popen(arguments, env=variables, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        watch = threading.Timer(30, child.kill)
        watch.start()
        try:
            said = b"".join(child.stdout.readline() for _ in range(lines))
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read()
            assert child.wait(20) == -signal.SIGKILL
        finally:
            watch.cancel()
            child.kill()
    text = said.decode()
    # A line that was cut off by the kill was not said.
    return text[: text.rfind("\n") + 1].splitlines()


def body_of(key: str) -> bytes:
    """The bytes of an object, made from its key: any reader knows what they must be. Up to OBJECT_BYTES."""
    seed = hashlib.sha256(key.encode()).digest()
    size = int.from_bytes(seed[:4], "big") % OBJECT_BYTES
    return hashlib.shake_256(seed).digest(size)


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _count(state: State, times: int) -> None:
    done = 0
    while done < times:
        item = state.get("p", "n")
        assert item is not None
        try:
            state.transact([PutIf("p", "n", item.version, {"n": item.attributes["n"] + 1})])
            done += 1
        except Conflict:
            continue
    _say(str(done))


def _write_items(state: State, number: int) -> None:
    """Each of some threads: transaction after transaction of ITEMS items, the last one a counter that is replaced."""

    def write(writer: int) -> None:
        for step in range(1_000_000):
            partition = f"{number}-{writer}"
            actions: list[Action] = [
                PutNew(partition, f"{step:06}-{item}", {"t": "x" * (step % 9 * 1500)}) for item in range(ITEMS)
            ]
            counter = {"steps": step + 1}
            actions.append(PutIf(partition, "n", step, counter) if step else PutNew(partition, "n", counter))
            state.transact(actions)
            _say(f"{writer} {step}")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


def _write_objects(objects: Objects, number: int) -> None:
    """Object after object, by each of the three ways in turn, each in a folder of its own."""
    for step in range(1_000_000):
        key = f"{number}/{step:06}/object"
        body = body_of(key)
        if step % 3 == 0:
            objects.put_new(key, body, hashlib.sha256(body).hexdigest())
        elif step % 3 == 1:
            with objects.stage() as stage:
                for piece in _pieces(body):
                    stage.write(piece)
                stage.commit(key)
        else:
            create(objects.grant_write(key, seconds=60), _pieces(body))
        _say(key)


def main(adapter: str, folder: str, work: str, number: str) -> None:
    """Do one of the works."""
    with ADAPTERS[adapter](Path(folder)) as (state, objects):
        match work:
            case "count":
                _count(state, int(number))
            case "items":
                _write_items(state, int(number))
            case "objects":
                _write_objects(objects, int(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
