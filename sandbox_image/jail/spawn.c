/* The child that becomes bubblewrap or enter: it gives up everything before its exec. The environment it gets
 * is empty, its descriptors are 0, 1, 2 and the report pipe, its user is the run's own. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ERROR_FD = REPORT_FD + 1 };

static bool drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    return syscall(SYS_capset, &header, none) == 0;
}

/* No supplementary group, no capability in any set, no way back. */
static bool become(const struct identity *identity) {
    for (unsigned long capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; capability++) {
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (setgroups(0, NULL) != 0 || setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) != 0 || !drop_capabilities()) {
        return false;
    }
    return identity->uid == 0 || (setuid(0) != 0 && setgid(0) != 0 && getuid() == identity->uid &&
                                  geteuid() == identity->uid && getgroups(0, NULL) == 0);
}

/* Programs open their own output by name ("> /dev/stderr"), which the kernel lets the pipe's owner do. */
static void hand_over_output(const struct identity *identity) {
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat info;
        if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode)) {
            (void)!fchown(fd, identity->uid, identity->gid);
        }
    }
}

static _Noreturn void fail(const char *stage) {
    report_failure(ERROR_FD, stage, errno);
    _exit(EXIT_BROKEN);
}

static _Noreturn void child(char **argv, const struct identity *identity, const struct cgroup *cgroup,
                            int report_write, bool clean, int error_write, pid_t parent) {
    bool joined = cgroup_join(cgroup);
    int join_error = errno;
    /* Both move above the places that they are to take; what lay there is not needed any more. */
    int report = fcntl(report_write, F_DUPFD, ERROR_FD + 1), error = fcntl(error_write, F_DUPFD, ERROR_FD + 1);
    if (dup3(error, ERROR_FD, O_CLOEXEC) < 0) {
        _exit(EXIT_BROKEN);
    }
    if (!joined) {
        errno = join_error;
        fail("cgroup");
    }
    if (dup2(report, REPORT_FD) < 0) {
        fail("descriptors");
    }
    if (clean) {
        close_from(ERROR_FD + 1);
    } else {
        close(report);
        close(error);
    }
    /* Nothing of the supervisor's is left in this process; its own files under /proc may be written. */
    prctl(PR_SET_DUMPABLE, 1);
    /* The machine's killer, too, takes a program first. */
    write_text_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
    setsid();
    if (chdir("/") != 0) {
        fail("cwd");
    }
    if (identity->change) {
        hand_over_output(identity);
        if (!become(identity)) {
            fail("identity");
        }
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        fail("parent");
    }
    reset_signals();
    char *nothing[] = {NULL};
    execve(argv[0], argv, clean ? nothing : environ);
    fail("exec");
}

/* Starts argv (argv[0] is a path). *error_read is non-blocking: a failure before the exec is told there in
 * enter's own words, end of file means that the exec happened. */
pid_t spawn(char **argv, const struct identity *identity, const struct cgroup *cgroup, int report_write,
            bool clean, int *error_read) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        child(argv, identity, cgroup, report_write, clean, pipes[1], parent);
    }
    int error = errno;
    close(pipes[1]);
    *error_read = pipes[0];
    errno = error;
    return pid;
}
