/* System calls that a program has no need of and an attack has: refused, by libseccomp.
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
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static const uint64_t low_half = 0xffffffff;

static struct scmp_arg_cmp equals(unsigned argument, long long value) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, low_half, (uint64_t)value & low_half};
}

static struct scmp_arg_cmp differs(unsigned argument, uint64_t value) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_NE, value, 0};
}

static struct scmp_arg_cmp has_flag(unsigned argument, uint64_t flag) {
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, flag, flag};
}

enum { TIOCLINUX_REQUEST = 0x541c, NEW_TIME_NAMESPACE = 0x80, WHO_PROCESS_PRIO = 0, WHO_PROCESS_IO = 1 };

/* The newest system call that the lists below were written for (open_tree_attr, file_getattr, file_setattr);
 * later ones get ENOSYS, as on an older kernel. Numbers above 424 are the same on every architecture. */
enum { OPEN_TREE_ATTR = 467, NEWEST_KNOWN = 469 };

/* Programs and runtimes ask for these and go on without: "not there" rather than "not permitted". */
static const int absent[] = {
    SCMP_SYS(clone3),          SCMP_SYS(io_uring_setup),    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register), SCMP_SYS(pidfd_getfd),     SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(userfaultfd),     SCMP_SYS(memfd_secret),
};

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
                refuse_when(filter, SCMP_SYS(personality), differs(0, low_half)) &&
                refuse_when(filter, SCMP_SYS(prlimit64), differs(0, 0)) &&
                refuse_when(filter, SCMP_SYS(setpriority), differs(0, WHO_PROCESS_PRIO)) &&
                refuse_when(filter, SCMP_SYS(ioprio_set), differs(0, WHO_PROCESS_IO));
    for (size_t i = 0; i < sizeof namespace_flags / sizeof *namespace_flags; i++) {
        done = done && refuse_when(filter, SCMP_SYS(clone), has_flag(0, namespace_flags[i]));
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

static bool refuse_unknown(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* For the calling process and all that it starts. Expects no_new_privs. Other architectures' calls (i386 and
 * x32 on x86_64) answer ENOSYS. Speculative-store bypass stays as the kernel has it for unfiltered programs:
 * the filter guards against other processes, and the slow-down on older kernels is large. */
bool filter_apply(const pid_t *protected_pids, size_t count, bool own_pid_namespace) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL) {
        errno = ENOMEM;
        return false;
    }
    bool done = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) == 0 &&
                seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0) == 0 && refuse_lists(filter, own_pid_namespace) &&
                refuse_by_argument(filter) && protect(filter, protected_pids, count, own_pid_namespace);
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    errno = EINVAL;
    int error = done ? seccomp_load(filter) : -EINVAL;
    seccomp_release(filter);
    errno = error < 0 ? -error : errno;
    return error == 0 && refuse_unknown();
}
