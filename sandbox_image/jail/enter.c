/* The inside of a run: pid 1 of its pid namespace, or a plain child where there is none. It starts the compile
 * command and the program, reaps what they leave, and reports exact results. It must never lend the program
 * anything: it is not dumpable, so its environment, memory and descriptors cannot be opened under /proc. */
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
#include <sys/wait.h>
#include <unistd.h>

static void parse(struct enter_options *options, int argc, char **argv, int *program_at) {
    const struct option_spec spec[] = {
        {"report-fd", OPTION_NUMBER, &options->report_fd}, {"cwd", OPTION_TEXT, &options->cwd},
        {"mkdir", OPTION_LIST, &options->mkdir},           {"env", OPTION_LIST, &options->env},
        {"rlimit", OPTION_LIST, &options->rlimit},         {"filter", OPTION_NUMBER, &options->filter},
        {"landlock-ro", OPTION_LIST, &options->landlock_ro}, {"landlock-rw", OPTION_LIST, &options->landlock_rw},
        {"compile", OPTION_NUMBER, &options->compile},     {"clean", OPTION_NUMBER, &options->clean},
        {"protect", OPTION_LIST, &options->protect},       {"variables", OPTION_TEXT, &options->variables},
    };
    *program_at = parse_options(argc, argv, spec, sizeof spec / sizeof *spec);
    if (options->compile >= argc - *program_at) {
        usage_error("no program after", "--compile");
    }
    options->env.item = grow(options->env.item, options->env.count + 1, sizeof *options->env.item);
    options->env.item[options->env.count] = NULL;
    options->limits = allocate(options->rlimit.count + 1, sizeof *options->limits);
    options->limit_count = options->rlimit.count;
    for (size_t i = 0; i < options->limit_count; i++) {
        if (!limit_parse(options->rlimit.item[i], &options->limits[i])) {
            usage_error("bad limit", options->rlimit.item[i]);
        }
    }
    options->protected_pids = allocate(options->protect.count + 3, sizeof *options->protected_pids);
    for (size_t i = 0; i < options->protect.count; i++) {
        long long pid = 0;
        if (!parse_number(options->protect.item[i], &pid)) {
            usage_error("not a process", options->protect.item[i]);
        }
        options->protected_pids[options->protected_count++] = (pid_t)pid;
    }
    options->protected_pids[options->protected_count++] = getpid();
    if (getppid() > 0) {
        options->protected_pids[options->protected_count++] = getppid();
        options->protected_pids[options->protected_count++] = getpgid(getppid());
    }
}

static bool used_up_cpu(const struct enter_options *options, int status, const struct rusage *usage) {
    int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal_number == SIGXCPU) {
        return true;
    }
    for (size_t i = 0; signal_number == SIGKILL && i < options->limit_count; i++) {
        if (options->limits[i].resource == RLIMIT_CPU &&
            (unsigned long long)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) >= options->limits[i].value) {
            return true;
        }
    }
    return false;
}

/* Inside a pid namespace everything but this process goes; elsewhere that is the supervisor's work. */
static long long sweep(void) {
    long long killed = 0;
    if (getpid() != 1 || kill(-1, SIGKILL) != 0) {
        return 0;
    }
    int status = 0;
    while (wait(&status) > 0) {
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    return killed;
}

/* Runs one command to its end and reports it. True: it exited with 0. */
static bool stage(const struct enter_options *options, char **argv, enum phase phase) {
    int report_fd = (int)options->report_fd, pipes[2], status = 0;
    report_phase(report_fd, phase);
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        report_failure(report_fd, "pipe", errno);
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        program_run(options, argv, phase, pipes[1]);
    }
    int fork_error = errno;
    close(pipes[1]);
    if (child < 0) {
        report_failure(report_fd, "fork", fork_error);
        return false;
    }
    char failure[64];
    ssize_t size;
    while ((size = read(pipes[0], failure, sizeof failure)) < 0 && errno == EINTR) {
    }
    close(pipes[0]);
    struct rusage usage;
    pid_t ended;
    while ((ended = wait4(-1, &status, 0, &usage)) != child && (ended > 0 || errno == EINTR)) {
    }
    if (size > 0) {
        write_all(report_fd, failure, (size_t)size);
        return false;
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (phase == PHASE_RUN || code != 0) {
        report_end(report_fd, phase, code, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                   used_up_cpu(options, status, &usage));
    }
    return code == 0;
}

/* Standard input is the null device of outside, which the paths layer does not let a program open by name
 * ("/dev/stdin"): the one of inside takes its place. */
static void take_own_null(void) {
    struct stat info, own;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(STDIN_FILENO, &info) == 0 && fstat(fd, &own) == 0 && S_ISCHR(info.st_mode) &&
        info.st_rdev == own.st_rdev) {
        dup2(fd, STDIN_FILENO);
    }
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

int enter_main(int argc, char **argv) {
    struct enter_options options = {.report_fd = REPORT_FD, .filter = 1, .clean = 1};
    int at = 0;
    parse(&options, argc, argv, &at);
    argv += at;
    int report_fd = (int)options.report_fd;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (options.clean != 0) {
        prctl(PR_SET_DUMPABLE, 0);
        if (report_fd != REPORT_FD && dup2(report_fd, REPORT_FD) == REPORT_FD) {
            report_fd = REPORT_FD;
            options.report_fd = REPORT_FD;
        }
        close_from((unsigned)REPORT_FD + 1);
    }
    fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    take_own_null();
    for (size_t i = 0; i < options.mkdir.count; i++) {
        if (mkdir(options.mkdir.item[i], 0700) != 0 && errno != EEXIST) {
            report_failure(report_fd, "mkdir", errno);
            return EXIT_BROKEN;
        }
    }
    if (!variables_over(&options.env, options.variables, &options.environment)) {
        report_failure(report_fd, "variables", errno);
        return EXIT_BROKEN;
    }
    bool compiled = true;
    if (options.compile > 0) {
        char **compile = allocate((size_t)options.compile + 1, sizeof *compile);
        memcpy(compile, argv, (size_t)options.compile * sizeof *compile);
        compiled = stage(&options, compile, PHASE_COMPILE);
        report_killed(report_fd, sweep());
    }
    if (compiled) {
        stage(&options, argv + options.compile, PHASE_RUN);
        report_killed(report_fd, sweep());
    }
    return 0;
}
