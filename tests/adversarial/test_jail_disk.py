"""Ways to fill the disk that a file's size does not show: blocks behind its end, files without a name, folders that
keep the room of names that are gone, and what no look can find."""

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.adversarial.jail_helpers import MIB, Result, new_uid, python, workspace

BYTES = (None, 9, "workspace_bytes")
FINE = (0, None, None)


def watched(script: str, folder: str, uid: int, byte_limit: int) -> Result:
    watch = ["--watch-dir", folder, "--watch-bytes", str(byte_limit), "--watch-entries", "0"]
    return python(script, uid=uid, folder=folder, supervise=watch, wall_ms=8000)


RESERVES = """
import ctypes, fcntl, os, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("f", os.O_RDWR | os.O_CREAT)
got = []
for mode in (0, 1, 1 << 32, 0x10, 0x11, 0x20, 0x40):
    failed = libc.syscall({"x86_64": 285, "aarch64": 47}[os.uname().machine], fd, ctypes.c_long(mode),
                          ctypes.c_long(0), ctypes.c_long(1 << 20)) != 0
    got.append(ctypes.get_errno() if failed else 0)
for request in (0x40305828, 0x4030582A, 0x40305839):
    try:
        got.append(fcntl.ioctl(fd, request, struct.pack("hhqqiI4i", 0, 0, 0, 1 << 20, 0, 0, 0, 0, 0, 0)))
    except OSError as error:
        got.append(error.errno)
os.posix_fallocate(fd, 0, 1 << 16)
assert os.fstat(fd).st_size == 1 << 16
print(got, os.fstat(fd).st_blocks <= 256, libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096)))
"""


@pytest.mark.parametrize("place", ["/var/tmp", "/dev/shm"])
def test_no_blocks_can_be_taken_behind_the_end_of_a_file(place: str) -> None:
    uid = new_uid()
    with workspace(uid, place) as folder:
        result = python(RESERVES, uid=uid, folder=folder)
        assert result.outcome == FINE, result.stderr
        refused = [errno.EOPNOTSUPP] * 7 + [errno.EPERM] * 3
        assert result.text == f"{refused} True 0\n"


LEADERLESS = """
import ctypes, os, threading, time
def hold():
    time.sleep(0.5)
    for n in range(6):
        f = os.open(str(n), os.O_RDWR | os.O_CREAT)
        os.unlink(str(n))
        os.write(f, bytes(1 << 20))
    time.sleep(6)
    os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_files_without_a_name_count_when_the_first_thread_is_gone() -> None:
    uid = new_uid()
    with workspace(uid) as folder:
        assert watched(LEADERLESS, folder, uid, 4 * MIB).outcome == BYTES


SWOLLEN = """
import os, time
for folder in range(COUNT):
    os.mkdir(str(folder))
    names = [f"{folder}/{n:04}" + "x" * 240 for n in range(2000)]
    for name in names: os.mkfifo(name)
    for name in names: os.unlink(name)
time.sleep(HOLD)
"""


def test_emptied_folders_count_what_they_keep() -> None:
    uid = new_uid()
    with workspace(uid, "/var/tmp") as folder:
        result = watched(SWOLLEN.replace("COUNT", "1").replace("HOLD", "0.5"), folder, uid, 4 * MIB)
        assert result.outcome == FINE
        if os.stat(f"{folder}/0").st_size < 256 << 10:
            pytest.skip("folders of this file system shrink")
        more = f"import shutil; shutil.rmtree('0')\n{SWOLLEN}".replace("COUNT", "4").replace("HOLD", "9")
        result = watched(more, folder, uid, MIB)
        assert result.outcome == BYTES


HIDDEN = {
    "mapped": """
import mmap, os, time
kept = []
for n in range(56):
    f = os.open(str(n), os.O_RDWR | os.O_CREAT)
    os.unlink(str(n))
    os.write(f, bytes(1 << 20))
    kept.append(mmap.mmap(f, 4096)); os.close(f)
time.sleep(8)
""",
    "on their way": """
import os, socket, time
pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for n in range(8)]
for n in range(56):
    f = os.open(str(n), os.O_RDWR | os.O_CREAT)
    os.unlink(str(n))
    os.write(f, bytes(1 << 20))
    socket.send_fds(pairs[n % 8][0], [b"x"], [f]); os.close(f)
time.sleep(8)
""",
}


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[str]:
    """A file system of `size` bytes of its own."""
    with tempfile.TemporaryDirectory(prefix="jail-disk-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True, timeout=9)
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True, timeout=9)


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_nearly_full_disk_stops_the_run_that_took_more_than_its_limit(kind: str) -> None:
    uid = new_uid()
    with small_disk(60 * MIB) as disk, workspace(uid, disk) as folder:
        assert watched(HIDDEN[kind], folder, uid, 8 * MIB).outcome == BYTES


def test_a_nearly_full_disk_stops_no_run_that_took_little() -> None:
    uid = new_uid()
    with small_disk(60 * MIB) as disk:
        with open(f"{disk}/filler", "wb") as file:
            file.write(bytes(57 * MIB))
        with workspace(uid, disk) as folder:
            assert watched("open('a', 'w').write('x'); import time; time.sleep(0.5)", folder, uid, MIB).outcome == FINE
