/* Attacks, each to be run inside the chain with a layer on and off: exit 0 when the attack succeeded, 10 when it
 * was stopped, 3 when the probe itself is broken. */
#include "jail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static long long number(const char *text) {
    long long value = 0;
    if (!parse_number(text, &value)) {
        usage_error("not a number", text);
    }
    return value;
}

static int outcome(bool success) {
    return success ? 0 : EXIT_PROBE_STOPPED;
}

static bool create(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && close(fd) == 0;
}

static bool exists(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static int clean(char **argument) {
    return outcome(probe_clean(argument));
}

static int filter(char **argument) {
    (void)argument;
    return outcome(probe_filter());
}

/* Exits at once; the daemon, out of every session and deaf to polite signals, touches FILE 300 ms later and
 * lives on for ten seconds. The caller looks for FILE: there means that the attack succeeded. */
static int reap_daemon(char **argument) {
    if (fork() != 0) {
        return 0;
    }
    setsid();
    if (fork() != 0) {
        _exit(0);
    }
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    usleep(300000);
    int fd = open(argument[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) {
        close(fd);
    }
    sleep(10);
    _exit(0);
}

static int paths(char **argument) {
    bool done = create(argument[0], "jail-probe");
    if (done) {
        char path[4096];
        snprintf(path, sizeof path, "%s/jail-probe", argument[0]);
        unlink(path);
    }
    return outcome(done);
}

/* Sees a process of the host by its id, or reads a file of the host. */
static int namespaces(char **argument) {
    int fd = argument[1] == NULL ? -1 : open(argument[1], O_RDONLY | O_CLOEXEC);
    return outcome(fd >= 0 || exists("/proc", argument[0]) || kill((pid_t)number(argument[0]), 0) == 0 ||
                   errno == EPERM);
}

static int memory(char **argument) {
    size_t left = (size_t)number(argument[0]);
    const size_t piece = 16U << 20;
    while (left > 0) {
        size_t size = left < piece ? left : piece;
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            return EXIT_PROBE_STOPPED;
        }
        memset(at, 0x5a, size);
        left -= size;
    }
    usleep(300000); /* a watcher that looks now and then has its look */
    return 0;
}

/* Some machines have no /dev/shm. */
static int wipe_leave(char **argument) {
    bool shared = create("/dev/shm", argument[0]) || errno == ENOENT || errno == EROFS || errno == EACCES;
    return create("/tmp", argument[0]) && shared ? 0 : EXIT_BROKEN;
}

static int wipe_look(char **argument) {
    return outcome(exists("/tmp", argument[0]) || exists("/dev/shm", argument[0]));
}

static int network(char **argument) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(argument[0]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return outcome(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
}

int probe_main(int argc, char **argv) {
    static const struct {
        const char *name;
        int least;
        int (*run)(char **);
    } known[] = {
        {"clean", 0, clean},   {"filter", 0, filter},         {"reap-daemon", 1, reap_daemon},
        {"paths", 1, paths},   {"namespaces", 1, namespaces}, {"memory", 1, memory},
        {"network", 1, network}, {"wipe-leave", 1, wipe_leave}, {"wipe-look", 1, wipe_look},
    };
    for (size_t i = 0; argc > 0 && i < sizeof known / sizeof *known; i++) {
        if (strcmp(argv[0], known[i].name) == 0 && argc > known[i].least) {
            return known[i].run(argv + 1);
        }
    }
    fputs("usage: jail probe clean [PID …]|filter|reap-daemon FILE|paths DIR|namespaces PID [FILE]|memory BYTES|"
          "network PORT|wipe-leave NAME|wipe-look NAME\n",
          stderr);
    return EXIT_USAGE;
}
