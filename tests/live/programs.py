"""The probe's programs (cases.md K1 to K4). Each prints a line for what it achieved, nothing where it was stopped."""

from __future__ import annotations

from typing import Final

OWN_ENVIRONMENT: Final = """
import os
for name in sorted(os.environ):
    if name.startswith(("AWS", "LAMBDA", "WORKROOM", "_HANDLER", "_X_AMZN")):
        print("sees", name)
"""

OTHERS_SECRETS: Final = """
import os
for pid in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for name in ("environ", "mem"):
        try:
            got = open(f"/proc/{pid}/{name}", "rb").read(1)
        except OSError:
            continue
        if got:
            print("reads", name, "of another process")
"""

NETWORK: Final = """
import socket
for host in ("1.1.1.1", "8.8.8.8", "169.254.169.254", "sts.amazonaws.com", "example.com"):
    for port in (443, 80, 53):
        try:
            socket.create_connection((host, port), timeout=1).close()
            print("connects to", host, port)
        except OSError:
            pass
for name in ("example.com", "a.b.c.example.org"):
    try:
        socket.getaddrinfo(name, 443)
        print("resolves", name)
    except OSError:
        pass
"""

RUNTIME: Final = """
import socket
try:
    socket.create_connection(("127.0.0.1", 9001), timeout=1).close()
    print("reaches the runtime API")
except OSError:
    pass
"""

DAEMON: Final = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        while True:
            try:
                open("/tmp/daemon", "w").write("here")
                open("/mnt/data/daemon-late", "a").write("x")
            except OSError:
                pass
            time.sleep(0.05)
    os._exit(0)
open("/tmp/left", "w").write(sys.argv[1])
print("started")
"""

LEFT_OVER: Final = """
import os, sys, time
for path in ("/tmp/daemon", "/tmp/left", "/dev/shm/left"):
    if os.path.exists(path):
        print("finds", path)
late = "/mnt/data/daemon-late"
before = os.path.getsize(late) if os.path.exists(late) else -1
time.sleep(0.3)
if (os.path.getsize(late) if os.path.exists(late) else -1) != before:
    print("the daemon still writes")
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        line = open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        continue
    if sys.argv[1][::-1].encode() in line:
        print("sees the daemon")
"""

SIGNALS: Final = """
import os
mine = {os.getpid()}
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
    if pid in mine or (pid == 1 and os.getppid() == 1):
        continue
    try:
        os.kill(pid, 0)
        print("may signal another process")
    except OSError:
        pass
"""

BOOT: Final = 'print(open("/proc/sys/kernel/random/boot_id").read().strip())'
SEARCH: Final = """
import os, sys
marker = sys.argv[1][::-1].encode()
for top in ("/tmp", "/dev/shm", "/var/tmp", "/mnt", "/workspace", "/home"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and marker in open(path, "rb").read(1 << 20):
                    print("finds another's file")
            except OSError:
                pass
"""
MARK: Final = """
import sys
for path in ("/tmp/mark", "/mnt/data/mark"):
    open(path, "w").write(sys.argv[1])
"""
SPIN: Final = "while True: pass"
