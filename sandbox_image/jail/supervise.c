/* The outside of a run: starts the chain, waits for what ends it first, leaves nothing behind, writes one line. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t millisecond = 1000000;
/* How long the chain may take to go by itself once its result is known. */
static const int64_t grace_ns = 50 * 1000000;

struct options {
    long long status_fd, control_fd, uid, gid, wall_ms, memory, watch_bytes, watch_entries;
    long long reap, reap_ms, dumpable, clean, keep_cgroup, exclusive_uid, sole;
    const char *cgroup, *watch_dir;
    struct list tmpfs;
    char **argv;
};

struct run {
    const struct options *options;
    struct status status;
    struct report report;
    struct reaper reaper;
    struct cgroup cgroup;
    struct memory_watch memory;
    struct watch *watch; /* NULL: off */
    int signal_fd, control_fd, report_fd, error_fd;
    int64_t begin, deadline; /* ns; deadline 0: none */
};

static void parse(struct options *options, int argc, char **argv) {
    const struct option_spec spec[] = {
        {"status-fd", OPTION_NUMBER, &options->status_fd},
        {"control-fd", OPTION_NUMBER, &options->control_fd},
        {"uid", OPTION_NUMBER, &options->uid},
        {"gid", OPTION_NUMBER, &options->gid},
        {"exclusive-uid", OPTION_NUMBER, &options->exclusive_uid},
        {"wall-ms", OPTION_NUMBER, &options->wall_ms},
        {"memory", OPTION_NUMBER, &options->memory},
        {"cgroup", OPTION_TEXT, &options->cgroup},
        {"keep-cgroup", OPTION_NUMBER, &options->keep_cgroup},
        {"tmpfs", OPTION_LIST, &options->tmpfs},
        {"sole", OPTION_NUMBER, &options->sole},
        {"watch-dir", OPTION_TEXT, &options->watch_dir},
        {"watch-bytes", OPTION_NUMBER, &options->watch_bytes},
        {"watch-entries", OPTION_NUMBER, &options->watch_entries},
        {"reap", OPTION_NUMBER, &options->reap},
        {"reap-ms", OPTION_NUMBER, &options->reap_ms},
        {"dumpable", OPTION_NUMBER, &options->dumpable},
        {"clean", OPTION_NUMBER, &options->clean},
    };
    int at = parse_options(argc, argv, spec, sizeof spec / sizeof *spec);
    options->argv = argv + at;
    if ((options->uid >= 0) != (options->gid >= 0)) {
        usage_error("needs the other", "--uid, --gid");
    }
    if (options->uid >= 0 && geteuid() != 0) {
        usage_error("needs root", "--uid");
    }
    if (options->cgroup != NULL && options->memory == 0) {
        usage_error("needs --memory", "--cgroup");
    }
}

static int signals_as_descriptor(void) {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGHUP);
    sigprocmask(SIG_SETMASK, &taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void stop(struct run *run, enum reason reason) {
    run->status.reason = reason;
    run->status.code = -1;
    run->status.signal = SIGKILL;
}

static void not_started(struct run *run, const char *error) {
    run->status.reason = REASON_START;
    if (run->status.error[0] == '\0') {
        snprintf(run->status.error, sizeof run->status.error, "%s", error);
    }
}

static bool is_over(const struct run *run) {
    return run->report.ended || run->status.reason != REASON_NONE || run->reaper.child == 0;
}

/* A byte asks for the end, and so does the silence of a caller that died. */
static void read_control(struct run *run) {
    char byte = 0;
    ssize_t n = read(run->control_fd, &byte, 1);
    if (n > 0 && byte == 'o') {
        stop(run, REASON_OUTPUT);
    } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        stop(run, REASON_STOPPED);
    }
}

static void read_signals(struct run *run) {
    struct signalfd_siginfo taken[16];
    ssize_t n = read(run->signal_fd, taken, sizeof taken);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *taken; i++) {
        if (taken[i].ssi_signo != SIGCHLD && !is_over(run)) {
            stop(run, REASON_STOPPED);
        }
    }
    reap_now(&run->reaper);
}

/* The direct child went without a report: it never reached the program, or something killed it meanwhile. */
static void child_gone(struct run *run) {
    report_read(&run->report, run->report_fd, &run->status);
    if (run->report.ended) {
        return;
    }
    int status = run->reaper.child_status;
    if (!run->report.started) {
        struct report early = {0};
        report_read(&early, run->error_fd, &run->status);
        not_started(run, "the sandbox did not start");
        return;
    }
    run->report.ended = true;
    run->status.signal = WIFSIGNALED(status)         ? WTERMSIG(status)
                         : WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128
                                                     : SIGKILL;
}

static void look(struct run *run) {
    if (run->deadline != 0 && now_ns() >= run->deadline) {
        stop(run, REASON_TIME);
    } else if (run->memory.limit > 0 && now_ns() >= run->memory.due && memory_over(&run->memory, getpid())) {
        stop(run, REASON_MEMORY);
    } else if (run->watch != NULL && now_ns() >= watch_due(run->watch)) {
        enum watch_result result = watch_step(run->watch, getpid());
        if (result != WATCH_FINE) {
            stop(run, result == WATCH_BYTES ? REASON_BYTES : REASON_ENTRIES);
        }
    }
}

static int64_t earliest(const struct run *run) {
    int64_t due = run->deadline != 0 ? run->deadline : INT64_MAX;
    due = run->memory.limit > 0 && run->memory.due < due ? run->memory.due : due;
    return run->watch != NULL && watch_due(run->watch) < due ? watch_due(run->watch) : due;
}

/* Sleeps until a descriptor speaks or `due` (ns) has come. */
static void wait_once(struct run *run, int64_t due) {
    struct pollfd fds[] = {
        {.fd = run->signal_fd, .events = POLLIN},
        {.fd = run->report_fd, .events = POLLIN},
        {.fd = run->control_fd, .events = POLLIN},
    };
    int64_t left = due - now_ns();
    left = left > 0 ? left : 0;
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(fds, 3, due == INT64_MAX ? NULL : &timeout, NULL) <= 0) {
        return;
    }
    if ((fds[1].revents & POLLIN) != 0) {
        report_read(&run->report, run->report_fd, &run->status);
    } else if (fds[1].revents != 0) {
        close(run->report_fd);
        run->report_fd = -1; /* nobody can report any more; the child's exit says the rest */
    }
    if (fds[0].revents != 0) {
        read_signals(run);
    }
    if (fds[2].revents != 0 && !is_over(run)) {
        read_control(run);
    }
}

static void wait_for_end(struct run *run) {
    while (!is_over(run)) {
        wait_once(run, earliest(run));
        if (!is_over(run)) {
            look(run);
        }
    }
    if (run->reaper.child == 0) {
        child_gone(run);
    }
    run->status.wall_ns = now_ns() - run->begin;
}

/* Lets the chain go by itself when its result is known, and takes what enter still has to say. */
static void wait_for_exit(struct run *run) {
    int64_t end = now_ns() + grace_ns;
    run->control_fd = -1;
    while (run->report.ended && run->reaper.child > 0 && now_ns() < end) {
        wait_once(run, end);
    }
    if (run->report_fd >= 0) {
        struct status ignored = {0};
        report_read(&run->report, run->report_fd, run->report.ended ? &run->status : &ignored);
    }
}

static void settle(struct run *run) {
    struct status *status = &run->status;
    struct rusage usage;
    wait_for_exit(run);
    status->clean = reap_all(&run->reaper, run->signal_fd);
    status->killed += run->reaper.killed;
    getrusage(RUSAGE_CHILDREN, &usage);
    status->cpu_ns = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                     ((int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
    status->max_rss = (int64_t)usage.ru_maxrss * 1024;
    status->peak_memory = run->cgroup.dir >= 0 ? cgroup_peak(&run->cgroup)
                          : run->memory.limit > 0 ? run->memory.peak
                                                  : -1;
    bool failed = status->signal != 0 || status->code != 0;
    if (status->reason == REASON_NONE && failed && cgroup_killed(&run->cgroup)) {
        status->reason = REASON_MEMORY;
    }
}

static bool start(struct run *run) {
    const struct options *options = run->options;
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return false;
    }
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    run->report_fd = pipes[0];
    struct identity identity = {
        .change = options->uid >= 0, .uid = (uid_t)options->uid, .gid = (gid_t)options->gid};
    reap_uid(&run->reaper); /* what a dead supervisor left of this user */
    pid_t pid = spawn(options->argv, &identity, &run->cgroup, pipes[1], options->clean != 0, &run->error_fd);
    close(pipes[1]);
    run->reaper.child = pid > 0 ? pid : 0;
    return pid > 0;
}

static void prepare(struct run *run) {
    const struct options *options = run->options;
    if (options->dumpable == 0) {
        prctl(PR_SET_DUMPABLE, 0);
    }
    run->reaper.on = options->reap != 0;
    if (run->reaper.on && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        not_started(run, "no sub-reaper");
    }
    run->reaper.own_uid =
        run->reaper.on && options->exclusive_uid != 0 && options->uid > 0 && geteuid() == 0;
    run->reaper.uid = (uid_t)options->uid;
    run->reaper.effort_ns = options->reap_ms * millisecond;
    if (options->wall_ms > 0) {
        run->deadline = run->begin + options->wall_ms * millisecond;
    }
    if (options->cgroup != NULL) {
        if (!cgroup_open(&run->cgroup, options->cgroup, options->memory, options->keep_cgroup != 0)) {
            not_started(run, "no memory cgroup");
        }
    } else {
        run->memory.limit = options->memory;
        memory_begin(&run->memory, options->sole != 0);
    }
    if (options->watch_dir != NULL) {
        run->watch = watch_open(options->watch_dir, options->watch_bytes, options->watch_entries);
        if (run->watch == NULL) {
            not_started(run, "no workspace");
        }
    }
}

int supervise_main(int argc, char **argv) {
    struct options options = {.status_fd = -1, .control_fd = -1, .uid = -1, .gid = -1, .exclusive_uid = 1,
                              .reap = 1, .reap_ms = 8000, .clean = 1};
    parse(&options, argc, argv);
    struct run run = {
        .options = &options,
        .status = {.code = -1, .phase = PHASE_RUN, .peak_memory = -1, .clean = true},
        .cgroup = {.dir = -1},
        .memory = {.tmpfs = &options.tmpfs},
        .signal_fd = signals_as_descriptor(),
        .control_fd = (int)options.control_fd,
        .report_fd = -1,
        .error_fd = -1,
        .begin = now_ns(),
    };
    prepare(&run);
    if (run.status.reason == REASON_NONE && !start(&run)) {
        not_started(&run, "no process");
    }
    if (run.status.reason == REASON_NONE) {
        wait_for_end(&run);
    }
    settle(&run);
    if (options.cgroup != NULL) {
        cgroup_close(&run.cgroup);
    }
    if (options.status_fd >= 0) {
        status_write((int)options.status_fd, &run.status);
    }
    return 0;
}
