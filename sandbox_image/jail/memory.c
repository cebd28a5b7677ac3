/* Memory of a run tree where no cgroup is to be had: a look every 50 ms. The quick figure (resident pages that
 * no file backs) counts pages twice that forked processes share; only when it is over the limit the exact one
 * is asked for, which shares them out. */
#include "jail.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/openat2.h>

static const int64_t interval_ns = 50 * 1000000, idle_factor = 6;

/* The value in bytes of a line `NAME:  N kB`, 0 when there is none. */
static int64_t kilobytes(const char *text, const char *name) {
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoll(line + strlen(name), NULL, 10) * 1024;
}

static int64_t quick(pid_t pid) {
    char path[48], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (read_text_at(AT_FDCWD, path, text, sizeof text) <= 0) {
        return 0;
    }
    return kilobytes(text, "\nRssAnon:") + kilobytes(text, "\nRssShmem:") + kilobytes(text, "\nVmSwap:");
}

static int64_t exact(pid_t pid) {
    char path[48], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (read_text_at(AT_FDCWD, path, text, sizeof text) <= 0 || strstr(text, "\nPss_Anon:") == NULL) {
        return quick(pid);
    }
    return kilobytes(text, "\nPss_Anon:") + kilobytes(text, "\nPss_Shmem:") + kilobytes(text, "\nSwapPss:");
}

static int64_t sum(const struct process_list *list, int64_t (*measure)(pid_t)) {
    int64_t total = 0;
    for (size_t i = 0; i < list->count; i++) {
        total += measure(list->item[i].pid);
    }
    return total;
}

/* What the run's own tmpfs hold, seen through the root of its youngest process. A path that does not lie in a
 * mount namespace of its own, or is no tmpfs, counts nothing. */
static int64_t tmpfs_of(const struct list *paths, pid_t pid) {
    char path[48], here[64] = "", there[64] = "";
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
    if (readlink(path, there, sizeof there - 1) <= 0 || readlink("/proc/self/ns/mnt", here, sizeof here - 1) <= 0 ||
        strcmp(here, there) == 0) {
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/root", pid);
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int64_t total = 0;
    for (size_t i = 0; root >= 0 && i < paths->count; i++) {
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, root, paths->item[i], &how, sizeof how);
        struct statfs info;
        if (fd >= 0 && fstatfs(fd, &info) == 0 && info.f_type == TMPFS_MAGIC) {
            total += (int64_t)(info.f_blocks - info.f_bfree) * info.f_bsize;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (root >= 0) {
        close(root);
    }
    return total;
}

/* The same where the run has no mount namespace but is alone on the machine's tmpfs. */
static int64_t tmpfs_here(const struct list *paths) {
    int64_t total = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct statfs info;
        if (statfs(paths->item[i], &info) == 0 && info.f_type == TMPFS_MAGIC) {
            total += (int64_t)(info.f_blocks - info.f_bfree) * info.f_bsize;
        }
    }
    return total;
}

/* Says what the tmpfs of a run that is alone hold before it begins: that is not its own. */
void memory_begin(struct memory_watch *watch, bool sole) {
    watch->sole = sole;
    watch->before = sole ? tmpfs_here(watch->tmpfs) : 0;
}

static int64_t tmpfs_sum(const struct memory_watch *watch) {
    if (watch->tmpfs->count == 0) {
        return 0;
    }
    if (watch->sole) {
        int64_t more = tmpfs_here(watch->tmpfs) - watch->before;
        return more > 0 ? more : 0;
    }
    return watch->tree.count > 0 ? tmpfs_of(watch->tmpfs, watch->tree.item[watch->tree.count - 1].pid) : 0;
}

/* True: the descendants of root hold more than the limit. Says when to look next. */
bool memory_over(struct memory_watch *watch, pid_t root) {
    int64_t begin = now_ns();
    tree_walk(root, &watch->tree);
    int64_t total = sum(&watch->tree, quick);
    int64_t tmpfs = tmpfs_sum(watch);
    if (total + tmpfs > watch->limit) {
        total = sum(&watch->tree, exact);
    }
    total += tmpfs;
    watch->peak = total > watch->peak ? total : watch->peak;
    int64_t now = now_ns(), rest = now + idle_factor * (now - begin);
    watch->due = begin + interval_ns > rest ? begin + interval_ns : rest;
    return total > watch->limit;
}
