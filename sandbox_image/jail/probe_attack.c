/* The two probes that are made of many attacks: one success is enough. Each prints what succeeded. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool told(const char *what, bool success) {
    if (success) {
        printf("%s\n", what);
        fflush(stdout);
    }
    return success;
}

static bool reads(const char *format, pid_t pid) {
    char path[64], byte;
    snprintf(path, sizeof path, format, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool done = fd >= 0 && read(fd, &byte, 1) == 1;
    if (fd >= 0) {
        close(fd);
    }
    return done;
}

/* The environment of the caller, its descriptors, the environment of the process above and of those named. */
bool probe_clean(char **pids) {
    bool any = told("environment", getenv("WORKROOM_CANARY") != NULL);
    int open_fd = -1;
    for (int fd = STDERR_FILENO + 1; fd < 1024 && open_fd < 0; fd++) {
        open_fd = fcntl(fd, F_GETFD) >= 0 ? fd : -1;
    }
    any |= told("descriptor", open_fd >= 0);
    any |= told("parent", reads("/proc/%d/environ", getppid()) || reads("/proc/%d/maps", getppid()));
    long long pid = 0;
    for (; *pids != NULL && parse_number(*pids, &pid); pids++) {
        any |= told("named", reads("/proc/%d/environ", (pid_t)pid) || reads("/proc/%d/maps", (pid_t)pid));
    }
    return any;
}

static bool socket_of(int family, int type) {
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return fd >= 0 && close(fd) == 0;
}

static bool ring(void) {
    char parameters[256] = {0};
    long fd = syscall(SYS_io_uring_setup, 1, parameters);
    return fd >= 0 && close((int)fd) == 0;
}

static pid_t sleeper(void) {
    pid_t pid = fork();
    if (pid == 0) {
        sleep(5);
        _exit(0);
    }
    return pid;
}

static bool traces(pid_t pid) {
    return ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
}

static bool reads_memory(pid_t pid) {
    static char mark = 'm';
    char copy = 0;
    struct iovec to = {&copy, 1}, from = {&mark, 1};
    return syscall(SYS_process_vm_readv, pid, &to, 1UL, &from, 1UL, 0UL) == 1;
}

static bool new_user(void) {
    pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool probe_filter(void) {
    bool any = told("AF_INET", socket_of(AF_INET, SOCK_STREAM));
    any |= told("AF_NETLINK", socket_of(AF_NETLINK, SOCK_RAW));
    any |= told("io_uring", ring());
    pid_t pid = sleeper();
    any |= told("process_vm_readv", pid > 0 && reads_memory(pid));
    any |= told("ptrace", pid > 0 && traces(pid));
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    any |= told("user namespace", new_user());
    return any;
}
