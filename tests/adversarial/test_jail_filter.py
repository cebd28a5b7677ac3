"""The system-call filter: what it refuses (K2, K4), also by the kernel's narrower reading of an argument, and what
it must let pass."""

import errno
import os
import platform
from pathlib import Path

import pytest

from tests.adversarial.jail_helpers import PYTHON, Chain, Run, as_user, compiled, new_uid, python, run, workspace

BOTH = pytest.mark.parametrize("namespaces", [False, True])

_REFUSED = (
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp unshare setns mount umount2 pivot_root "
    "chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr reboot swapon swapoff "
    "init_module finit_module delete_module acct quotactl syslog settimeofday clock_settime sethostname "
    "setdomainname name_to_handle_at open_by_handle_at fanotify_init bpf perf_event_open keyctl add_key "
    "request_key "
)
NOT_PERMITTED = _REFUSED.split()
NOT_THERE = ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "pidfd_getfd"]
NOT_THERE += ["pidfd_send_signal"]

# Every argument is -1: as root, without the filter, none of them does anything, and each fails in its own way.
CALLS = (
    """
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TRY(name) do { errno = 0; long r = syscall(SYS_##name, -1L, -1L, -1L, -1L, -1L, -1L); \\
    printf("%s %d\\n", #name, r < 0 ? errno : 0); } while (0)
int main(void) {
"""
    + "\n".join(f"    TRY({name});" for name in NOT_PERMITTED + NOT_THERE)
    + "\n    return 0;\n}\n"
)


def called(filtered: int) -> dict[str, int]:
    result = Run(Chain([compiled(CALLS)], uid=None, enter=["--filter", str(filtered)])).finish()
    assert result.outcome == (0, None, None)
    return {name: int(number) for name, number in (line.split() for line in result.text.splitlines())}


def test_calls_that_only_an_attack_needs_are_refused_even_to_root() -> None:
    expected = dict.fromkeys(NOT_PERMITTED, errno.EPERM) | dict.fromkeys(NOT_THERE, errno.ENOSYS)
    assert called(1) == expected
    unfiltered = called(0)
    assert [name for name, number in unfiltered.items() if number == expected[name] == errno.EPERM] == []
    # The filter is what takes them away: most of them exist on this kernel.
    assert sum(unfiltered[name] != errno.ENOSYS for name in NOT_THERE) >= 3


def test_nobody_writes_out_the_whole_machine() -> None:
    """syncfs(2) of a descriptor that is none fails only where the kernel is asked."""
    script = "import ctypes, os; os.sync(); print(ctypes.CDLL(None).syncfs(-1)); f = open('f', 'w'); os.fsync(f)"
    uid = new_uid()
    with workspace(uid) as folder:
        assert python(script, uid=uid, folder=folder).outcome == (0, None, None)
        assert python(script, uid=uid, folder=folder).text == "0\n"
        assert python(script, uid=uid, folder=folder, enter=["--filter", "0"]).text == "-1\n"


SOCKETS = """
import ctypes, json, socket
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
call.restype = ctypes.c_long
import platform
number = {"x86_64": (41, 53), "aarch64": (198, 199)}[platform.machine()]
def attempt(number, family, *rest):
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(family), *rest]
    return "open" if call(ctypes.c_long(number), *arguments) >= 0 else ctypes.get_errno()
zero = ctypes.c_long(0)
pair = (ctypes.c_int * 2)()
out = {}
for name, family in FAMILIES.items():
    for half in (0, 1 << 32, -1 << 32):
        for kind in (1, 2, 3):
            out[f"{name} {half} {kind}"] = attempt(number[0], family | half, ctypes.c_long(kind), zero)
        out[f"{name} {half} pair"] = attempt(number[1], family | half, ctypes.c_long(1), zero, ctypes.byref(pair))
print(json.dumps(out))
"""
FAMILIES = {"INET": 2, "INET6": 10, "NETLINK": 16, "PACKET": 17, "ALG": 38, "VSOCK": 40, "XDP": 44, "BLUETOOTH": 31}


@BOTH
def test_k2_no_socket_but_unix_whatever_the_upper_half_of_the_argument(namespaces: bool) -> None:
    script = f"FAMILIES = {FAMILIES!r}\n{SOCKETS}"
    filtered = python(script, namespaces=namespaces)
    assert filtered.outcome == (0, None, None), filtered.stderr
    assert "open" not in filtered.text
    assert '"open"' in python(script, namespaces=namespaces, enter=["--filter", "0"]).text


@BOTH
def test_unix_sockets_and_all_that_programs_need_still_work(namespaces: bool) -> None:
    script = """
import asyncio, concurrent.futures, ctypes, multiprocessing, os, resource, signal, socket, subprocess, threading, time
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
socket.socket(socket.AF_UNIX).close()
async def main():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
    assert (await process.communicate())[0] == b"hi\\n"
asyncio.run(main())
child = subprocess.Popen(["sleep", "9"]); os.kill(child.pid, 15); assert child.wait() == -15
os.killpg(os.getpgrp(), 0); os.kill(os.getpid(), 0)
with concurrent.futures.ProcessPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, -2])) == [1, 2]
thread = threading.Thread(target=time.sleep, args=(0.01,)); thread.start(); thread.join()
resource.setrlimit(resource.RLIMIT_CPU, (50, 60)); os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0)); os.setpriority(os.PRIO_PROCESS, 0, 5)
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.signal(signal.SIGALRM, lambda *_: print("fine")); time.sleep(0.05)
for ask in (0xffffffff, -1): assert ctypes.CDLL(None).personality(ctypes.c_ulong(ask)) == 0
"""
    result = python(script, namespaces=namespaces)
    assert (result.text, result.outcome) == ("fine\n", (0, None, None)), result.stderr


ARGUMENTS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define HIGH (1L << 32)
static void told(const char *what, long result) {
    printf("%s %s\n", what, result >= 0 ? "done" : errno == EPERM ? "EPERM" : errno == ENOSYS ? "ENOSYS" : "other");
    fflush(stdout);
}
static long cloned(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid((pid_t)pid, NULL, 0);
    return pid;
}
int main(void) {
    struct rlimit limit;
    pid_t child = fork();
    if (child == 0) { sleep(5); _exit(0); }
    told("clone", cloned(0));
    told("clone user", cloned(CLONE_NEWUSER));
    told("clone user and pid", cloned(CLONE_NEWUSER | CLONE_NEWPID));
    told("clone user and net", cloned(CLONE_NEWUSER | CLONE_NEWNET));
    told("prlimit self", syscall(SYS_prlimit64, 0L, (long)RLIMIT_NOFILE, NULL, &limit));
    told("prlimit child", syscall(SYS_prlimit64, (long)child, (long)RLIMIT_NOFILE, NULL, &limit));
    told("prlimit child high", syscall(SYS_prlimit64, (long)child | HIGH, (long)RLIMIT_NOFILE, NULL, &limit));
    told("personality", syscall(SYS_personality, 0x0040000L));
    told("push to terminal", ioctl(0, TIOCSTI, "x"));
    told("push to terminal high", syscall(SYS_ioctl, 0L, (long)TIOCSTI | HIGH, "x"));
    told("priority of a user", setpriority(PRIO_USER, 0, 5));
    told("priority of a group", setpriority(PRIO_PGRP, 0, 5));
    kill(child, SIGKILL);
    return 0;
}
"""
ALLOWED = {"clone", "prlimit self"}


def test_arguments_are_read_as_the_kernel_reads_them() -> None:
    def answers(filtered: int) -> dict[str, str]:
        result = run(compiled(ARGUMENTS), enter=["--filter", str(filtered)])
        assert result.outcome == (0, None, None)
        return dict(line.rsplit(" ", 1) for line in result.text.splitlines())

    on, off = answers(1), answers(0)
    assert on == {name: "done" if name in ALLOWED else "EPERM" for name in off}
    assert {name for name, answer in off.items() if answer == "EPERM"} == set()


OTHER_ABI = r"""
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    long i386, x32;
    __asm__ volatile("int $0x80" : "=a"(i386) : "a"(20L) : "memory", "r8", "r9", "r10", "r11"); /* getpid */
    x32 = syscall(0x40000000L | SYS_getpid);
    printf("i386 %s, x32 %s\n", i386 == getpid() ? "open" : i386 == -ENOSYS ? "ENOSYS" : "other",
           x32 == getpid() ? "open" : errno == ENOSYS ? "ENOSYS" : "other");
    __asm__ volatile("int $0x80" : "=a"(i386) : "a"(359L), "b"(2L), "c"(1L), "d"(0L) : "memory"); /* socket */
    puts(i386 >= 0 ? "socket open" : "socket refused");
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine has one system-call table only")
def test_other_system_call_tables_are_refused() -> None:
    result = run(compiled(OTHER_ABI))
    assert result.text == "i386 ENOSYS, x32 ENOSYS\nsocket refused\n"


ATTACK = """
import ctypes, os, platform, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def sys(number, *arguments): return libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
x86 = platform.machine() == "x86_64"
KILL, TKILL, TGKILL, QUEUE, TGQUEUE = (62, 200, 234, 129, 297) if x86 else (129, 130, 131, 138, 240)
PRIO, AFFINITY, SCHED, IOPRIO, PRLIMIT = (141, 203, 144, 251, 302) if x86 else (140, 122, 119, 30, 261)
PTRACE, READV, PIDFD_OPEN, PIDFD_KILL = (101, 310, 434, 424) if x86 else (117, 270, 434, 424)
mask = ctypes.create_string_buffer(b"\\x01" + bytes(127)); zero = ctypes.create_string_buffer(512)
info = ctypes.create_string_buffer(128); ctypes.memmove(info, (ctypes.c_int * 3)(0, 0, -1), 12)
done = []
def attempt(what, result):
    if result >= 0: done.append(what)
targets = {t for p in TARGETS for t in map(int, os.listdir(f"/proc/{p}/task"))}
for pid in targets:
    for high in (0, 1 << 32, -1 << 32):
        p = pid | high if high >= 0 else (pid & 0xffffffff) | high
        attempt("kill", sys(KILL, p, 0)); attempt("group", sys(KILL, (-pid & 0xffffffff) | (high & ~0xffffffff), 0))
        attempt("tkill", sys(TKILL, p, 0)); attempt("tgkill", sys(TGKILL, p, p, 0))
        attempt("queue", sys(QUEUE, p, 0, ctypes.addressof(info)))
        attempt("tgqueue", sys(TGQUEUE, p, p, 0, ctypes.addressof(info)))
        attempt("priority", sys(PRIO, 0, p, 19)); attempt("affinity", sys(AFFINITY, p, 128, ctypes.addressof(mask)))
        attempt("scheduler", sys(SCHED, p, 3, ctypes.addressof(zero))); attempt("io", sys(IOPRIO, 1, p, 3 << 13))
        attempt("limit", sys(PRLIMIT, p, 7, 0, ctypes.addressof(zero)))
    attempt("trace", sys(PTRACE, 0x4206, pid, 0, 0))
    fd = sys(PIDFD_OPEN, pid, 0)
    if fd >= 0: attempt("pidfd", sys(PIDFD_KILL, fd, 0, 0, 0))
    for name in ("mem", "environ", "maps", "fd/3", "auxv", "stack"):
        try: done.append(name) if os.read(os.open(f"/proc/{pid}/{name}", 0), 1) else None
        except OSError: pass
EVERYONE
attempt("user's priority", libc.setpriority(2, 0, 19)); attempt("group's priority", libc.setpriority(1, 0, 19))
print(sorted(set(done)))
"""
# Without a pid namespace the program must also not reach everyone, nor the supervisor's process group.
EVERYONE = """
for all in (-1, 0xffffffff, (1 << 32) - 1 | 1 << 33): attempt("everyone", sys(KILL, all, 0))
attempt("supervisor's group", sys(KILL, -os.getpgid(TARGETS[1]), 0))
"""


def attack(namespaces: bool, filtered: int) -> str:
    """The attack on enter and on the supervisor, all of one user, as on a platform that has one only."""
    uid = new_uid()
    targets = "TARGETS = [os.getppid()]"
    if not namespaces:
        targets = "TARGETS = [os.getppid(), int(open(f'/proc/{os.getppid()}/stat').read().rsplit(')')[1].split()[1])]"
    script = ATTACK.replace("EVERYONE", "" if namespaces else EVERYONE)
    chain = Chain(
        [PYTHON, "-I", "-c", f"import os\n{targets}\n{script}"],
        namespaces=namespaces, uid=None, prefix=as_user(uid), enter=["--filter", str(filtered)],
    )  # fmt: skip
    result = Run(chain).finish()
    assert result.outcome == (0, None, None), result.stderr
    return result.text


@BOTH
def test_k4_program_cannot_touch_the_supervisor_nor_its_init(namespaces: bool) -> None:
    assert attack(namespaces, 1) == "[]\n"
    assert "kill" in attack(namespaces, 0)


def test_k4_further_processes_can_be_protected_by_id() -> None:
    """As the service's own on a platform with one user: by thread ids and by process group."""
    uid = new_uid()
    victim = Run(Chain(["sleep", "30"], uid=None, prefix=as_user(uid)))
    try:
        script = f"import os\ntry: print(os.kill({victim.process.pid}, 0))\nexcept OSError as e: print(e.errno)"
        plain = Chain([PYTHON, "-c", script], uid=None, prefix=as_user(uid))
        assert Run(plain).finish().text == "None\n"
        plain.enter = ["--protect", str(victim.process.pid)]
        assert Run(plain).finish().text == f"{errno.EPERM}\n"
    finally:
        os.write(victim.control, b"k")
        assert victim.finish().outcome == (None, 9, "stopped")


def test_filter_stays_for_all_that_the_program_starts_and_cannot_be_taken_off() -> None:
    script = """
import ctypes, subprocess, sys
status = open("/proc/self/status").read()
print([line for line in status.splitlines() if line.startswith(("Seccomp:", "NoNewPrivs"))])
print(subprocess.run([sys.executable, "-c", "import socket; socket.socket()"], stderr=subprocess.DEVNULL).returncode)
"""
    text = python(script).text
    assert text == "['NoNewPrivs:\\t1', 'Seccomp:\\t2']\n1\n"


def test_objects_that_outlive_a_run_cannot_be_made_without_a_namespace_for_them() -> None:
    script = "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0)"
    assert python(script).text == "False\n"
    assert python(script, namespaces=True).text == "True\n"
    assert Path("/proc/sysvipc/shm").read_text().count("\n") >= 1
