/* Bytes on disk of files that were deleted while the run still holds them open, seen under /proc/PID/fd without
 * opening anything. One process a step; each file once, however many descriptors it has. */
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
    inode_clear(&unlinked->seen);
}

static void add_files_of(struct unlinked *unlinked, pid_t pid, long long *bytes) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
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
    }
}

/* True: every process was looked at. */
bool unlinked_step(struct unlinked *unlinked, long long *bytes) {
    if (unlinked->next < unlinked->processes.count) {
        add_files_of(unlinked, unlinked->processes.item[unlinked->next++].pid, bytes);
    }
    return unlinked->next >= unlinked->processes.count;
}
