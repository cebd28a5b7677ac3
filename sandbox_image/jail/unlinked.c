/* Bytes on disk of files that were deleted while the run still holds them open, seen under /proc/PID/fd without
 * opening anything. One process a step; each file once, however many descriptors it has. */
#include "jail.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 65536 };

struct unlinked {
    dev_t device;
    struct process_list processes;
    size_t next;
    ino_t *seen; /* open addressing, 0: free */
    size_t count, room;
};

struct unlinked *unlinked_open(dev_t device) {
    struct unlinked *unlinked = allocate(1, sizeof *unlinked);
    unlinked->device = device;
    return unlinked;
}

void unlinked_begin(struct unlinked *unlinked, pid_t root) {
    tree_walk(root, &unlinked->processes);
    unlinked->next = 0;
    unlinked->count = 0;
    if (unlinked->room > 0) {
        memset(unlinked->seen, 0, unlinked->room * sizeof *unlinked->seen);
    }
}

static bool insert(ino_t *table, size_t room, ino_t inode) {
    size_t at = (size_t)(inode * 0x9e3779b97f4a7c15ULL) % room;
    while (table[at] != 0 && table[at] != inode) {
        at = (at + 1) % room;
    }
    bool new = table[at] == 0;
    table[at] = inode;
    return new;
}

static bool first_seen(struct unlinked *unlinked, ino_t inode) {
    if (unlinked->count * 2 >= unlinked->room && unlinked->room < MOST_FILES) {
        size_t room = unlinked->room * 4 + 64;
        ino_t *table = allocate(room, sizeof *table);
        for (size_t i = 0; i < unlinked->room; i++) {
            if (unlinked->seen[i] != 0) {
                insert(table, room, unlinked->seen[i]);
            }
        }
        free(unlinked->seen);
        unlinked->seen = table;
        unlinked->room = room;
    }
    if (unlinked->count + 1 >= unlinked->room || !insert(unlinked->seen, unlinked->room, inode)) {
        return false;
    }
    unlinked->count++;
    return true;
}

static void add_files_of(struct unlinked *unlinked, pid_t pid, long long *bytes) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, AT_NO_AUTOMOUNT) == 0 && S_ISREG(info.st_mode) &&
            info.st_nlink == 0 && info.st_dev == unlinked->device && first_seen(unlinked, info.st_ino)) {
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
