/* Bytes on disk of files that were deleted while the run still holds them open, seen under /proc/PID/fd without
 * opening anything. One thread a step, since a thread may have descriptors of its own and a dead leader shows none;
 * each file once, however many descriptors it has. */
#include "jail.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 65536 };

struct unlinked {
    dev_t device;
    struct process_list processes;
    size_t next;
    DIR *threads; /* of the process at next; NULL: not opened yet */
    struct inode_set seen;
};

struct unlinked *unlinked_open(dev_t device) {
    struct unlinked *unlinked = allocate(1, sizeof *unlinked);
    unlinked->device = device;
    return unlinked;
}

void unlinked_begin(struct unlinked *unlinked, pid_t root) {
    tree_walk(root, &unlinked->processes);
    unlinked->next = 0;
    if (unlinked->threads != NULL) {
        closedir(unlinked->threads);
        unlinked->threads = NULL;
    }
    inode_clear(&unlinked->seen);
}

static void add_files_of(struct unlinked *unlinked, const char *thread, long long *bytes) {
    char path[300];
    snprintf(path, sizeof path, "%s/fd", thread);
    int fd = openat(dirfd(unlinked->threads), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, AT_NO_AUTOMOUNT) == 0 && S_ISREG(info.st_mode) &&
            info.st_nlink == 0 && info.st_dev == unlinked->device && unlinked->seen.count < MOST_FILES &&
            inode_add(&unlinked->seen, info.st_ino)) {
            *bytes += (long long)info.st_blocks * 512;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    } else if (fd >= 0) {
        close(fd);
    }
}

/* True: every thread of every process was looked at. */
bool unlinked_step(struct unlinked *unlinked, long long *bytes) {
    if (unlinked->next >= unlinked->processes.count) {
        return true;
    }
    if (unlinked->threads == NULL) {
        char path[48];
        snprintf(path, sizeof path, "/proc/%d/task", unlinked->processes.item[unlinked->next].pid);
        unlinked->threads = opendir(path);
    }
    struct dirent *entry = unlinked->threads != NULL ? readdir(unlinked->threads) : NULL;
    if (entry != NULL) {
        if (entry->d_name[0] != '.') {
            add_files_of(unlinked, entry->d_name, bytes);
        }
        return false;
    }
    if (unlinked->threads != NULL) {
        closedir(unlinked->threads);
        unlinked->threads = NULL;
    }
    return ++unlinked->next >= unlinked->processes.count;
}
