/* System calls that a program has no need of and an attack has: the rules, made into code by libseccomp.
 *
 * A process id, an ioctl request and a socket family are 32 bits for the kernel while the filter sees 64: rules
 * that refuse one value compare the low half only, else a program would pass with the high half set. A rule
 * that refuses all values but one (NE) needs no mask: the high half set makes it differ. */
#include "jail.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t low_half = 0xffffffff;

static struct scmp_arg_cmp equals(unsigned argument, long long value) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, low_half, (uint64_t)value & low_half};
}

static struct scmp_arg_cmp differs(unsigned argument, uint64_t value) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_NE, value, 0};
}

static struct scmp_arg_cmp lacks_flag(unsigned argument, uint64_t flag) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, flag, 0};
}

static struct scmp_arg_cmp has_flag(unsigned argument, uint64_t flag) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, flag, flag};
}

enum { TIOCLINUX_REQUEST = 0x541c, NEW_TIME_NAMESPACE = 0x80, WHO_PROCESS_PRIO = 0, WHO_PROCESS_IO = 1 };

/* Ways to take disk blocks behind the end of a file, where neither its size nor the limit of a file's size sees
 * them. fallocate(2) may only give room back (punch a hole, collapse a range); the rest answers "not supported", as
 * on a file system without it, and the C library's posix_fallocate writes instead. */
enum { RESERVE = 0x40305828, RESERVE_64 = 0x4030582a, RESERVE_ZERO = 0x40305839, GIVES_BACK = 0x02 | 0x08 };

/* The newest system call that the lists below were written for (open_tree_attr, file_getattr, file_setattr);
 * later ones get ENOSYS, as on an older kernel. Numbers above 424 are the same on every architecture. */
enum { OPEN_TREE_ATTR = 467, NEWEST_KNOWN = 469 };

/* Programs and runtimes ask for these and go on without: "not there" rather than "not permitted". */
static const int absent[] = {
    SCMP_SYS(clone3),          SCMP_SYS(io_uring_setup),    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register), SCMP_SYS(pidfd_getfd),     SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(userfaultfd),     SCMP_SYS(memfd_secret),
    SCMP_SYS(io_setup), /* its number of requests is one for the whole machine */
};

/* They would write out what everybody on the machine has written, again and again: done without doing it. A file of
 * one's own can still be synced by itself. */
static const int pretended[] = {SCMP_SYS(sync), SCMP_SYS(syncfs)};

static const int refused[] = {
    /* other processes */
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise),
    SCMP_SYS(process_mrelease), SCMP_SYS(kcmp),
    /* namespaces and mounts */
    SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(mount), SCMP_SYS(umount), SCMP_SYS(umount2),
    SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr), OPEN_TREE_ATTR,
    /* the machine */
    SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load),
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(create_module),
    SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(syslog), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(iopl),
    SCMP_SYS(ioperm), SCMP_SYS(modify_ldt), SCMP_SYS(vhangup), SCMP_SYS(nfsservctl), SCMP_SYS(uselib),
    SCMP_SYS(_sysctl),
    /* ways around paths, and the kernel's widest doors */
    SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at), SCMP_SYS(fanotify_init), SCMP_SYS(fanotify_mark),
    SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(lookup_dcookie), SCMP_SYS(keyctl), SCMP_SYS(add_key),
    SCMP_SYS(request_key),
};

/* Objects that outlive the run where it has no IPC namespace of its own. */
static const int outliving[] = {
    SCMP_SYS(shmget), SCMP_SYS(semget), SCMP_SYS(msgget), SCMP_SYS(mq_open), SCMP_SYS(ipc),
};

static const uint64_t namespace_flags[] = {
    CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP,
    NEW_TIME_NAMESPACE,
};

/* System calls that act on a process named by the given argument. */
static const struct {
    int call;
    unsigned argument;
} aimed[] = {
    {SCMP_SYS(kill), 0}, {SCMP_SYS(tkill), 0}, {SCMP_SYS(tgkill), 0}, {SCMP_SYS(tgkill), 1},
    {SCMP_SYS(rt_sigqueueinfo), 0}, {SCMP_SYS(rt_tgsigqueueinfo), 0}, {SCMP_SYS(rt_tgsigqueueinfo), 1},
    {SCMP_SYS(sched_setscheduler), 0}, {SCMP_SYS(sched_setparam), 0}, {SCMP_SYS(sched_setattr), 0},
    {SCMP_SYS(sched_setaffinity), 0}, {SCMP_SYS(setpriority), 1}, {SCMP_SYS(ioprio_set), 1},
    {SCMP_SYS(migrate_pages), 0}, {SCMP_SYS(move_pages), 0},
};

static bool refuse(scmp_filter_ctx filter, int error, int call) {
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint16_t)error), call, 0) == 0;
}

static bool refuse_when(scmp_filter_ctx filter, int call, struct scmp_arg_cmp when) {
    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &when) == 0;
}

static bool refuse_lists(scmp_filter_ctx filter, bool own_namespace) {
    bool done = true;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        done = done && refuse(filter, ENOSYS, absent[i]);
    }
    for (size_t i = 0; i < sizeof pretended / sizeof *pretended; i++) {
        done = done && refuse(filter, 0, pretended[i]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        done = done && refuse(filter, EPERM, refused[i]);
    }
    for (size_t i = 0; !own_namespace && i < sizeof outliving / sizeof *outliving; i++) {
        done = done && refuse(filter, EPERM, outliving[i]);
    }
    return done;
}

static bool refuse_by_argument(scmp_filter_ctx filter) {
    bool done = refuse_when(filter, SCMP_SYS(socket), differs(0, AF_UNIX)) &&
                refuse_when(filter, SCMP_SYS(socketpair), differs(0, AF_UNIX)) &&
                refuse_when(filter, SCMP_SYS(ioctl), equals(1, TIOCSTI)) &&
                refuse_when(filter, SCMP_SYS(ioctl), equals(1, TIOCLINUX_REQUEST)) &&
                refuse_when(filter, SCMP_SYS(ioctl), equals(1, RESERVE)) &&
                refuse_when(filter, SCMP_SYS(ioctl), equals(1, RESERVE_64)) &&
                refuse_when(filter, SCMP_SYS(ioctl), equals(1, RESERVE_ZERO)) &&
                seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(fallocate), 1,
                                 lacks_flag(1, GIVES_BACK)) == 0 &&
                refuse_when(filter, SCMP_SYS(prlimit64), differs(0, 0)) &&
                refuse_when(filter, SCMP_SYS(setpriority), differs(0, WHO_PROCESS_PRIO)) &&
                refuse_when(filter, SCMP_SYS(ioprio_set), differs(0, WHO_PROCESS_IO));
    for (size_t i = 0; i < sizeof namespace_flags / sizeof *namespace_flags; i++) {
        done = done && refuse_when(filter, SCMP_SYS(clone), has_flag(0, namespace_flags[i]));
    }
    /* Asking is all 32 bits set, and programs set the other 32 or not; changing leaves one clear. */
    for (int bit = 0; bit < 32; bit++) {
        done = done && refuse_when(filter, SCMP_SYS(personality), lacks_flag(0, 1ULL << bit));
    }
    return done;
}

/* A process group is named by the negative id; -1 is everyone, which inside a pid namespace is only the run. */
static bool protect(scmp_filter_ctx filter, const pid_t *pids, size_t count, bool own_namespace) {
    bool done = true;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof aimed / sizeof *aimed; k++) {
            done = done && refuse_when(filter, aimed[k].call, equals(aimed[k].argument, pids[i]));
        }
        done = done && refuse_when(filter, SCMP_SYS(kill), equals(0, -pids[i]));
    }
    return done && (own_namespace || refuse_when(filter, SCMP_SYS(kill), equals(0, -1)));
}

/* Answers ENOSYS to what is newer than the rules, before the architecture is looked at. */
static size_t refuse_unknown(struct sock_filter *to) {
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    memcpy(to, code, sizeof code);
    return sizeof code / sizeof *code;
}

/* libseccomp writes its code to a descriptor only; a pipe holds more than FILTER_ROOM of it. */
static size_t export_code(scmp_filter_ctx filter, struct sock_filter *to, size_t room) {
    int pipes[2];
    if (pipe(pipes) != 0) {
        return 0;
    }
    int error = seccomp_export_bpf(filter, pipes[1]);
    close(pipes[1]);
    ssize_t size = error == 0 ? read(pipes[0], to, room * sizeof *to) : -1;
    bool whole = size > 0 && read(pipes[0], &(char){0}, 1) == 0;
    close(pipes[0]);
    return whole ? (size_t)size / sizeof *to : 0;
}

/* Writes the filter's code and returns its length, 0 on failure. Other architectures' calls (i386 and x32 on
 * x86_64) answer ENOSYS. */
size_t filter_build(const pid_t *protected_pids, size_t count, bool own_namespace, struct sock_filter *to) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL) {
        return 0;
    }
    size_t length = refuse_unknown(to);
    bool done = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) == 0 &&
                seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 &&
                refuse_lists(filter, own_namespace) && refuse_by_argument(filter) &&
                protect(filter, protected_pids, count, own_namespace);
    size_t exported = done ? export_code(filter, to + length, FILTER_ROOM - length) : 0;
    seccomp_release(filter);
    return exported > 0 ? length + exported : 0;
}
