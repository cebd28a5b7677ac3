/* The last steps before a program: its own session, descriptors, environment, limits, layers, exec. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int told_fd;

static _Noreturn void fail(const char *stage) {
    report_failure(told_fd, stage, errno);
    _exit(EXIT_BROKEN);
}

static const char *value_of(char **environment, const char *name) {
    size_t length = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

/* Like execvp, but never through a shell, and the file is found by the PATH of `finding`: a caller's variables say
 * nothing about which tool is meant. */
static void execute(char **argv, char **finding, char **environment) {
    const char *path = value_of(finding, "PATH");
    if (strchr(argv[0], '/') != NULL || path == NULL) {
        execve(argv[0], argv, environment);
        return;
    }
    int error = ENOENT;
    while (*path != '\0') {
        size_t length = strcspn(path, ":");
        char file[4096];
        int size = snprintf(file, sizeof file, "%.*s/%s", (int)length, path, argv[0]);
        if (length > 0 && size < (int)sizeof file) {
            execve(file, argv, environment);
            if (errno != ENOENT && errno != ENOTDIR) {
                error = errno;
            }
        }
        path += length + (path[length] == ':');
    }
    errno = error;
}

static void apply_limits(const struct enter_options *options) {
    struct limit no_core = {.resource = RLIMIT_CORE, .value = 0};
    bool done = options->clean == 0 || limit_apply(&no_core);
    for (size_t i = 0; done && i < options->limit_count; i++) {
        done = limit_apply(&options->limits[i]);
    }
    if (!done) {
        fail("limit");
    }
}

/* Runs argv and does not return. What fails before it is told on error_fd, which exec closes. */
_Noreturn void program_run(const struct enter_options *options, char **argv, enum phase phase, int error_fd) {
    bool clean = options->clean != 0;
    told_fd = error_fd;
    setsid();
    /* From here on this process holds nothing of enter's: the report pipe's place is taken. */
    if (dup3(error_fd, REPORT_FD, O_CLOEXEC) < 0) {
        fail("descriptors");
    }
    told_fd = REPORT_FD;
    if (clean) {
        close_from(REPORT_FD + 1);
        umask(022);
    }
    if (phase == PHASE_COMPILE && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        fail("descriptors");
    }
    if (options->cwd != NULL && chdir(options->cwd) != 0) {
        fail("cwd");
    }
    apply_limits(options);
    /* Where the machine refuses this (as AWS Lambda does) the two layers that stand on it are refused too; a program
     * that was to have neither starts all the same. */
    bool needed = options->filter != 0 || options->landlock_ro.count + options->landlock_rw.count > 0;
    if ((prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 && needed) || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fail("privileges");
    }
    if (!landlock_apply(&options->landlock_ro, &options->landlock_rw)) {
        fail("landlock");
    }
    if (options->filter != 0 &&
        !filter_apply(options->protected_pids, options->protected_count, getppid() == 1)) {
        fail("filter");
    }
    reset_signals();
    execute(argv, clean ? options->env.item : environ, clean ? options->environment.item : environ);
    fail("exec");
}
