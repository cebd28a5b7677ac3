"""What is the folder's own in the object adapter: leftovers, links, modes, errors, and the grants of one machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.executor import filegrant
from shared.store.local.keys import file_of, token
from shared.store.local.objects import FileObjects
from shared.store.ports import ObjectMissing, StoreUnavailable


def _put(objects: FileObjects, key: str, body: bytes = b"bytes") -> None:
    objects.put_new(key, body, hashlib.sha256(body).hexdigest())


def _read(objects: FileObjects, key: str) -> bytes:
    return b"".join(objects.read(key))


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_key_is_a_file_of_its_name(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/s_1/Pack-1", b"bytes")
    assert (tmp_path / "keys/p.d/s_1.d/Pack-1.o").read_bytes() == b"bytes"
    assert _files(tmp_path / "staging") == []


def test_no_name_is_longer_than_a_file_name_may_be() -> None:
    for length in range(1, 513):
        for key in ("x" * length, f"{'x' * length}/y"[:512].rstrip("/")):
            assert all(len(name) <= 255 for name in file_of(key).split("/"))
    assert len({file_of("x" * length) for length in range(1, 513)}) == 512


def test_a_foreign_file_among_the_objects_is_no_object(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/a")
    for name in ("note.txt", "x.part", "y", "short.c"):
        (tmp_path / "keys/p.d" / name).touch()
    assert [info.key for info in objects.list("")] == ["p/a"]
    assert [token(name) for name in ("a.o", "a.d", "short.c", "x.part", "y", ".o")] == ["a", "a/", None, None, None, ""]


def test_a_stage_is_linked_not_copied(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    with objects.stage() as stage:
        stage.write(b"bytes")
        (part,) = (tmp_path / "staging").iterdir()
        inode = part.stat().st_ino
        stage.commit("p/a")
    assert (tmp_path / "keys/p.d/a.o").stat().st_ino == inode
    assert (tmp_path / "keys/p.d/a.o").stat().st_nlink == 1


def test_the_digest_is_known_by_head_where_the_file_system_keeps_it(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/a", b"bytes")
    try:
        os.setxattr(tmp_path, "user.probe", b"1")
    except OSError:
        pytest.skip("no extended attributes here")
    info = objects.head("p/a")
    assert info is not None
    assert info.sha256 == hashlib.sha256(b"bytes").hexdigest()


def test_leftovers_are_removed_by_their_age(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/a")
    (tmp_path / "keys/p.d/s.d").mkdir()
    left = [tmp_path / "staging/old.part", tmp_path / "keys/p.d/s.d/old.part"]
    new = [tmp_path / "staging/new.part", tmp_path / "keys/p.d/new.part"]
    for path in (*left, *new):
        path.write_bytes(b"half")
    hour_ago = time.time() - 3600
    for path in (*left, tmp_path / "keys/p.d/a.o"):
        os.utime(path, (hour_ago, hour_ago))
    assert objects.sweep_staging(3700) == 0
    assert objects.sweep_staging(3500) == 2
    assert _files(tmp_path) == ["keys", "keys/p.d", "keys/p.d/a.o", "keys/p.d/new.part", "staging", "staging/new.part"]
    with objects.stage() as stage:
        stage.write(b"bytes")
        assert objects.sweep_staging(60) == 0
        stage.commit("p/b")
    assert objects.sweep_staging(-60) == 2
    assert _read(objects, "p/a") == _read(objects, "p/b") == b"bytes"


def test_a_stage_that_was_swept_away_is_unavailable_not_half_stored(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    with objects.stage() as stage:
        stage.write(b"bytes")
        objects.sweep_staging(-60)
        with pytest.raises(StoreUnavailable):
            stage.commit("p/a")
    assert objects.list("") == []


def test_a_stage_that_is_forgotten_goes_with_its_last_reference(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    stage = objects.stage()
    stage.write(b"bytes")
    del stage
    assert _files(tmp_path / "staging") == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_readings_that_are_not_finished_hold_no_file_open(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/a", b"x" * 3_000_000)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        objects.read("p/a")
        next(objects.read("p/a"))
        assert len(_read(objects, "p/a")) == 3_000_000
    assert len(os.listdir("/proc/self/fd")) == before


def test_empty_folders_do_not_stay(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/s/t/a")
    _put(objects, "p/b")
    objects.delete("p/s/t/a")
    assert _files(tmp_path / "keys") == ["p.d", "p.d/b.o"]
    _put(objects, "p/s/t/" + "x" * 300)
    assert objects.delete_prefix("p/s/") == 1
    assert _files(tmp_path / "keys") == ["p.d", "p.d/b.o"]
    objects.delete("p/b")
    assert _files(tmp_path) == ["keys", "staging"]


def test_a_symbolic_link_in_the_place_of_an_object_is_not_followed(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path / "store")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    _put(objects, "p/a")
    (tmp_path / "store/keys/p.d/link.o").symlink_to(secret)
    with pytest.raises(StoreUnavailable):
        objects.read("p/link")
    with pytest.raises(OSError, match="symbolic"):
        filegrant.read(objects.grant_read("p/link", seconds=1).url)
    with pytest.raises(FileExistsError):
        filegrant.create(objects.grant_write("p/link", seconds=1).url, [b"other"])
    assert secret.read_bytes() == b"secret"
    assert objects.delete_prefix("p/") == 2
    assert secret.read_bytes() == b"secret"


def test_what_is_no_regular_file_is_missing_and_does_not_block(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    _put(objects, "p/a")
    os.mkfifo(tmp_path / "keys/p.d/fifo.o")
    (tmp_path / "keys/p.d/folder.o").mkdir()
    for key in ("p/fifo", "p/folder"):
        with pytest.raises(ObjectMissing):
            objects.read(key)


def test_errors_of_the_system_are_unavailable_and_name_no_path(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path / "store")
    (tmp_path / "store/staging").rmdir()
    (tmp_path / "store/staging").touch()
    with pytest.raises(StoreUnavailable) as caught:
        _put(objects, "p/a")
    assert str(tmp_path) not in str(caught.value)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable):
        FileObjects(tmp_path / "file" / "store")


FULL = """
import resource, sys
from pathlib import Path
from shared.executor import filegrant
from shared.store.local.objects import FileObjects
from shared.store.ports import StoreUnavailable
objects = FileObjects(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
with objects.stage() as stage:
    try:
        for _ in range(20):
            stage.write(b"x" * 100_000)
        print("no error")
    except StoreUnavailable:
        print("stage")
try:
    filegrant.create(objects.grant_write("p/b", seconds=1).url, [b"x" * 2_000_000])
except OSError:
    print("grant")
"""


def test_a_disk_that_is_full_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", FULL, str(tmp_path)]
    said = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    assert said.split() == ["stage", "grant"]
    assert [name for name in _files(tmp_path) if name.endswith((".part", ".o"))] == []


@pytest.mark.parametrize(
    "url",
    [
        "", "/etc/passwd", "file", "file:", "file:relative", "file://host/x", "file:///x", "File:/x", "http://127.0.0.1/x",
        "https:/x", "file:/", "file:/x/", "file:/a/../b", "file:/a/./b", "file:/a//b", "file:/a\x00b", " file:/x",
    ],
)  # fmt: skip
def test_a_grant_is_file_and_a_canonical_absolute_path(url: str) -> None:
    with pytest.raises(ValueError, match="grant"):
        filegrant.read(url)
    with pytest.raises(ValueError, match="grant"):
        filegrant.create(url, [b"x"])


def test_a_grant_reads_in_pieces_of_a_mebibyte_at_most(tmp_path: Path) -> None:
    body = os.urandom((5 << 20) + 3)
    (tmp_path / "file").write_bytes(body)
    pieces = list(filegrant.read(f"file:{tmp_path}/file", 7))
    assert [len(piece) for piece in pieces] == [1 << 20] * 4 + [(5 << 20) + 3 - 7 - (4 << 20)]
    assert b"".join(pieces) == body[7:]
    with pytest.raises(FileNotFoundError):
        filegrant.read(f"file:{tmp_path}/absent")
    with pytest.raises(ValueError, match="negative"):
        filegrant.read(f"file:{tmp_path}/file", -1)


def test_a_creation_makes_private_folders_and_a_private_file(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        assert filegrant.create(f"file:{tmp_path}/a/b/c", [b"x"])[0] == 1
    finally:
        os.umask(old)
    for name, mode in (("a", 0o700), ("a/b", 0o700), ("a/b/c", 0o600)):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
    assert _files(tmp_path) == ["a", "a/b", "a/b/c"]


def test_the_data_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode("da ta%20#?é\n".encode() + b"\xff")
    objects = FileObjects(folder)
    assert filegrant.create(objects.grant_write("p/a", seconds=1).url, [b"x"])[0] == 1
    assert b"".join(filegrant.read(objects.grant_read("p/a", seconds=1).url)) == b"x"


def test_the_runner_can_import_the_grants_without_the_rest() -> None:
    script = "import sys; import shared.executor.filegrant; print(*(m for m in sys.modules if m.startswith('shared')))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=20
    ).stdout
    assert set(said.split()) == {"shared", "shared.executor", "shared.executor.filegrant"}


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_place_of_a_folder_is_an_error_not_a_loop(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        filegrant.make_folder(str(tmp_path / name))
    objects = FileObjects(tmp_path / "store")
    (tmp_path / "store/keys/p.d").touch()
    with pytest.raises(StoreUnavailable):
        _put(objects, "p/a")
