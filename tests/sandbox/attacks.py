# ruff: noqa: E501 (attacks stand as they are written)
"""Attacks of a program that has the user of everything around it. Each prints what it achieved."""

from __future__ import annotations

from typing import Final

OTHERS: Final = """
import os
def above(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
mine = {os.getpid()}
enter = above(os.getpid()); supervise = above(enter)
chain = {enter, supervise}
others = [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in mine | chain]
"""
"""`others`: every process but this one and its chain; `enter` and `supervise`: the chain; `above(pid)`: a parent."""

READ: Final = (
    OTHERS
    + """
for pid in [*others, enter, supervise]:
    for name in ("environ", "mem", "maps", "fd", "cwd", "root", "exe", "auxv"):
        path = f"/proc/{pid}/{name}"
        try:
            got = os.listdir(path) if name == "fd" else os.readlink(path) if name in ("cwd", "root", "exe") else open(path, "rb").read(64)
        except OSError:
            continue
        if got:
            print("got", name, open(f"/proc/{pid}/comm").read().strip())
print(sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3])
for number in range(3, 1024):
    try:
        print("open", number, os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        pass
"""
)
"""Reads what the kernel shows of every process; its own descriptors are 0, 1 and 2 (and the one that lists them)."""

MEDDLE: Final = (
    OTHERS
    + """
import ctypes, resource, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, pid, call):
    try:
        if call() in (None, 0): print(what, "of", open(f"/proc/{pid}/comm").read().strip())
    except OSError:
        pass
ids = {pid: [int(t) for t in os.listdir(f"/proc/{pid}/task")] for pid in [*others, supervise, enter]}
for pid, threads in ids.items():
    for number in (0, signal.SIGCONT, signal.SIGWINCH):
        for one in threads:
            attempt(f"kill {number}", pid, lambda: os.kill(one, number))
            attempt(f"tgkill {number}", pid, lambda: libc.syscall(234, pid, one, number))
            attempt(f"tkill {number}", pid, lambda: libc.syscall(200, one, number))
    attempt("rank", pid, lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt("cores", pid, lambda: os.sched_setaffinity(pid, {0}))
    attempt("scheduler", pid, lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
    attempt("limits", pid, lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)) and None)
    attempt("ptrace", pid, lambda: libc.ptrace(16, pid, 0, 0))
    if os.getpgid(pid) > 0: attempt("group", pid, lambda: os.kill(-os.getpgid(pid), 0))
attempt("everyone", os.getpid(), lambda: os.kill(-1, 0))
print("done")
"""
)
"""Signals (harmless ones), reprioritises, limits, traces every process around it, also by thread."""

HEADLESS: Final = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *go_on(void *none) { for (;;) sleep(1); return none; }
int main(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, 0, go_on, 0);
            pthread_exit(0);
        }
        _exit(0);
    }
    usleep(200000);
    puts("started");
}
"""
"""A daemon whose first thread has ended: it looks like a dead process whose parent has not looked yet."""

ESCAPE: Final = (
    OTHERS
    + """
import signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000.0625)
    os._exit(0)
time.sleep(0.1)
open("/tmp/left", "w").write("x")
os.kill(supervise, signal.SIGKILL)
time.sleep(5)
"""
)
"""Leaves a daemon, then kills its supervisor."""

FREEZE: Final = OTHERS + "\nimport signal, time\nos.kill(supervise, signal.SIGSTOP)\ntime.sleep(60)\n"
"""Stops its supervisor, so that nobody looks at the clock."""

REGICIDE: Final = (
    OTHERS
    + """
import signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000.0625)
    os._exit(0)
time.sleep(0.1)
open("/tmp/left", "w").write("x")
os.kill(above(supervise), signal.SIGKILL)
time.sleep(5)
"""
)
"""Leaves a daemon, then kills the function itself."""

FORGE: Final = """
import http.client, sys
def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=2)
    try:
        connection.request(method, "/2018-06-01/runtime/" + path, body)
        answer = connection.getresponse()
        print(method, answer.status, answer.read()[:200])
        return answer.getheader("Lambda-Runtime-Aws-Request-Id")
    except OSError as error:
        print(method, type(error).__name__)
forged = b'{"run_id": "run-2", "answer": {}}'
if request := ask("GET", "invocation/next"):
    ask("POST", f"invocation/{request}/response", forged)
ask("POST", "invocation/00000000-0000-0000-0000-000000000000/response", forged)
ask("POST", "init/error", forged)
print("tried")
"""
"""Asks the platform for the next event and answers it, and others."""

LEAVE: Final = """
import ctypes, os
os.makedirs("/tmp/deep/" + "/".join("d" * 9 for _ in range(90)), exist_ok=True)
for path in ("/tmp/shut", "/mnt/data/shut", "/tmp/home/.x"):
    os.makedirs(path, exist_ok=True)
    open(path + "/file", "w").write("left")
    os.chmod(path + "/file", 0)
    os.chmod(path, 0)
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run/lock", "/dev/mqueue", "/tmp/home"):
    try:
        open(folder + "/left", "w").write("left")
        os.symlink("/etc/passwd", folder + "/link")
        os.mkfifo(folder + "/fifo")
    except OSError: pass
libc = ctypes.CDLL(None)
for call in (lambda: libc.shmget(0x77, 4096, 0o1600), lambda: libc.msgget(0x77, 0o1600), lambda: libc.semget(0x77, 1, 0o1600)):
    call()
print("left")
"""
"""Leaves files, folders without permissions, and System V objects."""

LOOK: Final = """
import os
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run/lock", "/dev/mqueue", "/tmp/home", "/mnt/data"):
    try: print(folder, sorted(os.listdir(folder)))
    except OSError: pass
for table in ("shm", "msg", "sem"):
    try: print(table, len(open("/proc/sysvipc/" + table).readlines()) - 1)
    except OSError: pass
print(len([n for n in os.listdir("/proc") if n.isdigit()]))
"""
"""What is there."""
