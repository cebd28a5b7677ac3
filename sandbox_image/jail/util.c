/* Options, clocks, small files, descriptors. */
#include "jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Noreturn void usage_error(const char *what, const char *value) {
    fprintf(stderr, "jail: %s: %s\n", what, value);
    exit(EXIT_USAGE);
}

void *grow(void *old, size_t count, size_t size) {
    void *new = reallocarray(old, count, size);
    if (new == NULL) {
        fputs("jail: no memory\n", stderr);
        _exit(EXIT_BROKEN);
    }
    return new;
}

void *allocate(size_t count, size_t size) {
    void *new = grow(NULL, count, size);
    memset(new, 0, count * size);
    return new;
}

bool parse_number(const char *text, long long *to) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0) {
        return false;
    }
    *to = value;
    return true;
}

static void option_set(const struct option_spec *spec, char *value) {
    if (spec->kind == OPTION_TEXT) {
        *(const char **)spec->to = value;
    } else if (spec->kind == OPTION_LIST) {
        struct list *list = spec->to;
        list->item = grow(list->item, list->count + 1, sizeof *list->item);
        list->item[list->count++] = value;
    } else if (!parse_number(value, spec->to)) {
        usage_error("not a number", spec->name);
    }
}

/* Every option takes one value; `--` ends them. Returns the index of what follows it. */
int parse_options(int argc, char **argv, const struct option_spec *spec, size_t count) {
    for (int i = 0; i < argc; i += 2) {
        if (strcmp(argv[i], "--") == 0) {
            if (i + 1 >= argc) {
                usage_error("nothing to run after", "--");
            }
            return i + 1;
        }
        size_t at = 0;
        while (at < count && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, spec[at].name) != 0)) {
            at++;
        }
        if (at == count) {
            usage_error("unknown option", argv[i]);
        }
        if (i + 1 >= argc) {
            usage_error("no value for", argv[i]);
        }
        option_set(&spec[at], argv[i + 1]);
    }
    usage_error("missing", "--");
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t cpu_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

bool write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* At most size-1 bytes, ended by NUL; -1 when it cannot be read. */
ssize_t read_text_at(int dir, const char *path, char *to, size_t size) {
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, to, size - 1);
    close(fd);
    to[n > 0 ? n : 0] = '\0';
    return n;
}

bool write_text_at(int dir, const char *path, const char *text) {
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    bool done = write_all(fd, text, strlen(text));
    return close(fd) == 0 && done;
}

/* The kernel's own list; closing a descriptor does not move what follows it there. */
static bool close_listed(unsigned first) {
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        long long fd = 0;
        if (parse_number(entry->d_name, &fd) && fd >= (long long)first && fd != dirfd(dir)) {
            close((int)fd);
        }
    }
    return dir != NULL && closedir(dir) == 0;
}

void close_from(unsigned first) {
    if (syscall(SYS_close_range, first, ~0U, 0) == 0 || close_listed(first)) {
        return;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (rlim_t fd = first; fd < limit.rlim_max && fd < 1048576; fd++) {
        close((int)fd);
    }
}

void reset_signals(void) {
    /* By the system call: the C library refuses its own two signals, which a parent may have ignored. An action of
       zeros is SIG_DFL without flags on every architecture; KILL and STOP are refused and need nothing. */
    static const unsigned long by_default[4] = {0};
    for (long number = 1; number < NSIG; number++) {
        syscall(SYS_rt_sigaction, number, by_default, NULL, 8);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
