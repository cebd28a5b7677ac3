"""What a completed Turn publishes, by real programs: every limit at N and N + 1, specials, links, races (6.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from shared.operations.agents.artifacts import open_artifact
from shared.operations.room import Room
from tests.torture.place import PROJECT, Talk, real, talk

MIB = 1 << 20


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with real(turn_run_ms=100_000) as made:
        yield made


def content(one: Talk, path: str) -> bytes:
    """The newest Artifact's bytes of a path."""
    row = [row for row in one.artifacts() if row["path"] == path][-1]
    opened = open_artifact(one.room, PROJECT, one.session, row["id"])
    return b"".join(one.room.objects.read(opened.blob, opened.offset, opened.size)) if opened.size else b""


PASSES = {
    "nothing": ("pass", 0),
    "empty folder": ("os.mkdir('outputs')", 0),
    "empty file": ("put('a', '')", 1),
    "depth 64": ("os.makedirs('/'.join(['outputs'] + ['d'] * 64)); put('/'.join(['d'] * 64) + '/f', 'x')", 1),
    "4,096 files": ("[put(f'{n:04}', str(n)) for n in range(4096)]", 4_096),
    "4,096 entries of any kind": (
        "[put(f'f{n}', '') for n in range(4090)]; [os.mkdir(f'outputs/d{n}') for n in range(3)];"
        " [os.symlink('/etc/passwd', f'outputs/l{n}') for n in range(3)]",
        4_090,
    ),
    "a path of 4,096 bytes": ("long(4096)", 1),
    "a file of 200 MiB": ("put('big', ''); os.truncate('outputs/big', 200 * 2**20)", 1),
    "500 MiB": (
        "[(put(f'b{n}', ''), os.truncate(f'outputs/b{n}', 125 * 2**20)) for n in range(4)]",
        4,
    ),
    "names": ("put('报告 a+b%2e#?&=.txt', 'x'); put('-rf', 'y'); put('a\\nb', 'z'); put('\\\\', 'w')", 4),
    "hard links": ("put('a', 'same'); os.link('outputs/a', 'outputs/b')", 2),
    "links are left out": (
        "put('a', '1'); os.symlink('/proc/self/environ', 'outputs/out.txt'); os.symlink('/etc', 'outputs/outd');"
        " os.symlink('a', 'outputs/in'); os.symlink('.', 'outputs/loop'); os.symlink('gone', 'outputs/dangling')",
        1,
    ),
    "a file without any mode": ("put('a', '1'); os.chmod('outputs/a', 0)", 1),
    "a folder without any mode": ("put('d/a', '1'); os.chmod('outputs/d', 0)", 1),
    "thirty large files": ("[put(f'b{n}', 'x' * (2**20 + 5)) for n in range(30)]", 30),
    "a name that is not UTF-8 elsewhere": ("put('a', '1'); open(b'\\xff', 'w')", 1),
    "a FIFO elsewhere": ("put('a', '1'); os.mkfifo('pipe')", 1),
    "a socket elsewhere": ("put('a', '1'); s = socket.socket(socket.AF_UNIX); s.bind('sock')", 1),
}

FAILS = {
    "outputs is a file": "open('outputs', 'w')",
    "outputs is a link": "os.mkdir('real'); os.symlink('real', 'outputs')",
    "outputs is a link to itself": "os.symlink('.', 'outputs')",
    "outputs is a dangling link": "os.symlink('gone', 'outputs')",
    "outputs is a FIFO": "os.mkfifo('outputs')",
    "outputs is a socket": "s = socket.socket(socket.AF_UNIX); s.bind('outputs')",
    "a FIFO": "put('a', '1'); os.mkfifo('outputs/p')",
    "a deep FIFO": "put('d/e/a', '1'); os.mkfifo('outputs/d/e/p')",
    "a socket": "put('a', '1'); s = socket.socket(socket.AF_UNIX); s.bind('outputs/s')",
    "depth 65": "os.makedirs('/'.join(['outputs'] + ['d'] * 65))",
    "4,097 files": "[put(f'{n:04}', '') for n in range(4097)]",
    "4,097 links": "os.mkdir('outputs'); [os.symlink('x', f'outputs/{n}') for n in range(4097)]",
    "a path of 4,097 bytes": "long(4097)",
    "a path of 4,900 bytes": "long(4900)",
    "a path above the workspace's own limit": "long(6000)",
    "a depth above the workspace's own limit": "os.makedirs('/'.join(['outputs'] + ['d'] * 100))",
    "a file of 200 MiB and one byte": "put('big', ''); os.truncate('outputs/big', 200 * 2**20 + 1)",
    "500 MiB and one byte": (
        "[(put(f'b{n}', ''), os.truncate(f'outputs/b{n}', 125 * 2**20)) for n in range(4)]; put('c', 'x')"
    ),
    "a name that is not UTF-8": "os.mkdir('outputs'); open(b'outputs/\\xff', 'w')",
    "more entries than a workspace has": "[put(f'{n // 1000}/{n}', '') for n in range(20100)]",
}

PRELUDE = """
import os, socket, sys
def put(name, text):
    path = os.path.join('outputs', name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file: file.write(text)
def long(size):
    # An absolute path of so many bytes, by segments that are short enough.
    left = size - len('/workspace/outputs/')
    os.mkdir('outputs'); os.chdir('outputs')
    while left > 200:
        name = 'd' * 199
        os.mkdir(name); os.chdir(name)
        left -= 200
    open('f' * left, 'w').write('x')
open('kept.txt', 'a').write('kept')
"""


@pytest.mark.parametrize("case", sorted(PASSES))
def test_6_1_within_the_limits_all_files_are_published(room: Room, case: str) -> None:
    code, count = PASSES[case]
    one = talk(room, "program:py")
    turn = one.run(PRELUDE + code, seconds=110)
    command = one.command(turn["id"])
    assert command["exit_code"] == 0, command["output"]
    assert (turn["status"], turn["error"]) == ("completed", None)
    rows = one.artifacts()
    assert len(rows) == count
    assert all(row["path"].startswith("/workspace/outputs/") and row["turn_id"] == turn["id"] for row in rows)
    for row in rows[:3]:
        opened = open_artifact(room, PROJECT, one.session, row["id"])
        digest, size = hashlib.sha256(), 0
        if opened.size:
            for piece in room.objects.read(opened.blob, opened.offset, opened.size):
                digest.update(piece)
                size += len(piece)
        assert (size, digest.hexdigest()) == (row["size_bytes"], opened.sha256)
    one.verify()
    again = one.run("print(sorted(__import__('os').listdir('.')))", seconds=110)
    if again["error"] is None:
        assert "kept.txt" in one.output(again["id"])
        assert len(one.artifacts()) == count, "an unchanged file was published again"
    one.verify()


@pytest.mark.parametrize("case", sorted(FAILS))
def test_6_1_a_capture_that_fails_publishes_nothing_and_keeps_the_files(room: Room, case: str) -> None:
    one = talk(room, "program:py")
    turn = one.run(PRELUDE + FAILS[case], seconds=110)
    command = one.command(turn["id"])
    assert command["exit_code"] == 0, command["output"]
    assert turn["status"] == "failed"
    assert turn["error"]["code"] == "artifact_capture_failed", turn["error"]
    assert turn["error"]["message"]
    assert "workspace/" not in turn["error"]["message"]
    assert one.artifacts() == []
    assert one.do("sessions.get")["status"] == "idle"
    assert one.do("sessions.get")["error"] is None
    assert "kept.txt" in one.files()
    one.verify()
    mend = "import shutil, os, subprocess\nsubprocess.run(['rm', '-rf', 'outputs'], check=True)\n"
    turn = one.run(mend + "os.mkdir('outputs'); open('outputs/a', 'w').write('mended')", seconds=110)
    assert (turn["status"], turn["error"]) == ("completed", None)
    assert content(one, "/workspace/outputs/a") == b"mended"
    one.verify()


def test_E9_dedupe_deletion_and_back_again(room: Room) -> None:
    one = talk(room)
    path = "/workspace/outputs/f"

    def write(text: str) -> list[str]:
        assert one.run(f"mkdir -p outputs; printf {text} > outputs/f")["status"] == "completed"
        return [row["id"] for row in one.artifacts()]

    def delete(ident: str) -> None:
        one.do("artifacts.delete", artifact_id=ident)

    (first,) = write("A")
    assert write("A") == [first]
    assert write("B")[0] == first
    second = one.artifacts()[-1]["id"]
    third = write("A")[-1]
    assert len({first, second, third}) == 3
    assert content(one, path) == b"A"
    delete(third)
    assert write("B") == [first, second], "the newest that remains is B"
    delete(second)
    assert write("B")[0] == first
    assert len(one.artifacts()) == 2
    for row in one.artifacts():
        delete(row["id"])
    ids = write("B")
    assert len(ids) == 1
    assert not {first, second, third} & set(ids)
    assert one.run("rm outputs/f")["status"] == "completed"
    assert [row["id"] for row in one.artifacts()] == ids
    assert content(one, path) == b"B"
    one.verify()


def test_a_failed_program_publishes_what_it_left(room: Room) -> None:
    one = talk(room)
    turn = one.run("mkdir outputs; echo x > outputs/x; exit 7")
    assert turn["status"] == "completed"
    assert content(one, "/workspace/outputs/x") == b"x\n"
    one.verify()


def test_11_29_a_file_that_changes_while_it_is_copied_cannot_be_changed_by_a_survivor(room: Room) -> None:
    """Every process of the Turn is dead before the capture: what a daemon writes for ever does not race with it."""
    one = talk(room)
    loop = "while :; do echo x >> outputs/f; done"
    turn = one.run(f"mkdir outputs; setsid bash -c '{loop}' & sleep 0.5; echo done")
    assert (turn["status"], turn["error"]) == ("completed", None)
    size = one.artifacts()[0]["size_bytes"]
    assert len(content(one, "/workspace/outputs/f")) == size
    one.verify()


@pytest.mark.parametrize("place", ["", "outputs/"])
def test_11_31_what_a_workspace_cannot_keep(room: Room, place: str) -> None:
    """A path longer than any workspace takes: below outputs the capture fails, elsewhere it is `sandbox_error`."""
    one = talk(room, "program:py")
    deep = f"os.makedirs('{place}' or '.', exist_ok=True); os.chdir('{place}' or '.')\n"
    deep += "for n in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('f', 'w').write('x')"
    turn = one.run(PRELUDE + deep)
    expected = "artifact_capture_failed" if place else "sandbox_error"
    assert turn["status"] == "failed"
    assert turn["error"]["code"] == expected
    assert one.artifacts() == []
    # What could be kept below outputs stays, and is still too long; elsewhere nothing of the run stays.
    assert one.run("print('on')")["status"] == ("failed" if place else "completed")
    assert one.run("import subprocess; subprocess.run(['rm', '-rf', 'outputs'])")["status"] == "completed"
    one.verify()
