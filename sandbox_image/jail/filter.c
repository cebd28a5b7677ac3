/* Loads the filter. Where the program has a pid namespace of its own the code is always the same and was made
 * when the jail was built; making it anew costs a third of a millisecond and happens only where ids of the
 * machine are to be protected. */
#include "jail.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter_ready.h"

/* Speculative-store bypass stays as the kernel has it for unfiltered programs: the filter guards others from
 * the program, and the slow-down on older kernels is large. */
static bool load(const struct sock_filter *code, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = (struct sock_filter *)(uintptr_t)code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

/* For the calling process and all that it starts. Expects no_new_privs. */
bool filter_apply(const pid_t *protected_pids, size_t count, bool own_pid_namespace) {
    if (own_pid_namespace && count == 1 && protected_pids[0] == 1) {
        return load(filter_ready, sizeof filter_ready / sizeof *filter_ready);
    }
    struct sock_filter code[FILTER_ROOM];
    size_t length = filter_build(protected_pids, count, own_pid_namespace, code);
    if (length == 0) {
        errno = EINVAL;
        return false;
    }
    return load(code, length);
}
