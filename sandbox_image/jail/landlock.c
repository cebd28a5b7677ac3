/* Paths: the program reads what is listed as read-only, writes what is listed as read-write, sees nothing else.
 * The kernel's interface is spelled out here, for the build machine's headers may be older than its kernel.
 * Kernels that know more also refuse TCP and signals to processes outside. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ruleset {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};
struct rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1 };
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_ABI_1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,    /* ABI 2 */
    FS_TRUNCATE = 1 << 14, /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15 /* ABI 5 */
};
enum { FS_OF_FILE = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV };
enum { FS_READ = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR };
enum { NET_TCP = 3 };    /* ABI 4: bind, connect */
enum { SCOPE_BOTH = 3 }; /* ABI 6: abstract sockets, signals */

static bool allow(int ruleset, const char *path, uint64_t rights) {
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT; /* what is not there needs no rule; the view is only narrower */
    }
    struct stat info;
    bool done = fstat(fd, &info) == 0;
    struct rule rule = {.allowed = rights, .parent = fd};
    if (done && !S_ISDIR(info.st_mode)) {
        rule.allowed &= FS_OF_FILE;
    }
    done = done && syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) == 0;
    close(fd);
    return done;
}

/* Off (true) when both lists are empty. ABI 1 refuses renames across folders, which programs need: it counts
 * as missing, and a layer that was asked for and is missing is a failure. */
bool landlock_apply(const struct list *read_only, const struct list *read_write) {
    if (read_only->count + read_write->count == 0) {
        return true;
    }
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    if (abi < 2) {
        errno = abi < 0 ? errno : EOPNOTSUPP;
        return false;
    }
    struct ruleset rules = {.fs = FS_ABI_1 | FS_REFER};
    rules.fs |= abi >= 3 ? FS_TRUNCATE : 0;
    rules.fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
    rules.net = abi >= 4 ? NET_TCP : 0;
    rules.scoped = abi >= 6 ? SCOPE_BOTH : 0;
    size_t size = abi >= 6 ? sizeof rules : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (ruleset < 0) {
        return false;
    }
    bool done = true;
    for (size_t i = 0; done && i < read_only->count; i++) {
        done = allow(ruleset, read_only->item[i], FS_READ);
    }
    for (size_t i = 0; done && i < read_write->count; i++) {
        done = allow(ruleset, read_write->item[i], rules.fs);
    }
    done = done && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    return done;
}
