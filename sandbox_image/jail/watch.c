/* Bytes and entries that a program has put into its workspace, counted while it runs.
 *
 * The tree is hostile and moves under the walk. So: every step by directory descriptor, O_NOFOLLOW, a link is
 * counted and never followed; the walk is a loop with its own stack, whose memory the entry limit bounds; below
 * KEPT_LEVELS a folder's descriptor is given up and found again through "..", and only if it still is the same
 * folder; no single step reads more than SLICE entries, so a deadline is never missed by more than that; and a
 * pass that names renamed under it would keep busy for ever ends after MOST_STEPS and some.
 *
 * One pass may see two files of which the second was made after the first went. A limit therefore bites when
 * two passes in a row are over it. Files that were deleted but are still open count too: they fill the disk
 * without being in the tree. What no look can find, as a deleted file that is only mapped, or a descriptor on its
 * way through a socket, meets the brake: where the disk is nearly full, a run since whose begin more than its limit
 * went is stopped. */
#include "jail.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE = 256, KEPT_LEVELS = 192, BUFFER = 32768, MAX_LEVELS = 1 << 20, MOST_STEPS = 1 << 18 };
/* A pass every 100 ms, and six times as long asleep as awake: at most 15 % of one core. */
static const int64_t pass_ns = 100 * 1000000, idle_factor = 6;
/* The brake's reserve: a tenth of the disk, but no more than this. */
static const int64_t most_reserve = 8LL << 30;
/* A folder's own size counts above this: emptied, it keeps the blocks that its names took. */
static const long long folder_bytes = 64 << 10;

struct entry {
    ino64_t inode;
    off64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

struct level {
    int fd; /* -1: given up */
    dev_t device;
    ino_t inode;
    char *names; /* of its folders, each ended by NUL */
    size_t size, room, next;
};

struct watch {
    int root;
    dev_t device;
    long long byte_limit, entry_limit; /* 0: none */
    long long bytes, entries, steps;
    int64_t free_before, reserve;
    struct level *level;
    size_t depth, room; /* depth 0: between passes */
    bool reading;       /* the deepest level's entries are not all read */
    size_t at, filled;  /* within buffer */
    struct inode_set seen; /* in this pass */
    struct unlinked *unlinked;
    enum watch_result last; /* of the pass before */
    int64_t begin, due;
    char buffer[BUFFER] __attribute__((aligned(8)));
};

/* Bytes that others than root may still write to the workspace's file system, and its size; -1: unknown. */
static int64_t free_bytes(int root, int64_t *size) {
    struct statvfs info;
    if (fstatvfs(root, &info) != 0) {
        return -1;
    }
    *size = (int64_t)info.f_blocks * (int64_t)info.f_frsize;
    return (int64_t)info.f_bavail * (int64_t)info.f_frsize;
}

static bool brake(const struct watch *watch) {
    int64_t size = 0, now = watch->byte_limit > 0 ? free_bytes(watch->root, &size) : -1;
    return now >= 0 && now < watch->reserve && watch->free_before - now > watch->byte_limit;
}

struct watch *watch_open(const char *dir, long long bytes, long long entries) {
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (root < 0 || fstat(root, &info) != 0) {
        return NULL;
    }
    struct watch *watch = allocate(1, sizeof *watch);
    watch->root = root;
    watch->device = info.st_dev;
    watch->byte_limit = bytes;
    watch->entry_limit = entries;
    int64_t size = 0;
    watch->free_before = free_bytes(root, &size);
    watch->reserve = size / 10 < most_reserve ? size / 10 : most_reserve;
    watch->unlinked = unlinked_open(info.st_dev);
    watch->due = now_ns() + pass_ns / 2;
    return watch;
}

int64_t watch_due(const struct watch *watch) {
    return watch->due;
}

static bool push(struct watch *watch, int fd) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || watch->depth >= MAX_LEVELS) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    if (watch->depth == watch->room) {
        watch->room = watch->room * 2 + 64;
        watch->level = grow(watch->level, watch->room, sizeof *watch->level);
    }
    if (watch->depth > KEPT_LEVELS) {
        struct level *parent = &watch->level[watch->depth - 1];
        close(parent->fd);
        parent->fd = -1;
    }
    watch->bytes += info.st_size > folder_bytes ? info.st_size : 0;
    watch->level[watch->depth++] = (struct level){.fd = fd, .device = info.st_dev, .inode = info.st_ino};
    watch->reading = true;
    watch->at = watch->filled = 0;
    return true;
}

/* Back to the folder above. Where its descriptor was given up and ".." leads elsewhere now, the walk goes on
 * from the deepest folder that it still holds. */
static void pop(struct watch *watch) {
    struct level *gone = &watch->level[--watch->depth];
    struct level *above = watch->depth > 0 ? gone - 1 : NULL;
    if (above != NULL && above->fd < 0 && gone->fd >= 0) {
        struct stat info;
        above->fd = openat(gone->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (above->fd >= 0 && (fstat(above->fd, &info) != 0 || info.st_ino != above->inode ||
                               info.st_dev != above->device)) {
            close(above->fd);
            above->fd = -1;
        }
    }
    if (gone->fd >= 0) {
        close(gone->fd);
    }
    free(gone->names);
}

/* The end of a pass that has seen enough. */
static void unwind(struct watch *watch) {
    while (watch->depth > 0) {
        struct level *gone = &watch->level[--watch->depth];
        if (gone->fd >= 0) {
            close(gone->fd);
        }
        free(gone->names);
    }
}

static enum watch_result compare(const struct watch *watch) {
    if (watch->byte_limit > 0 && watch->bytes > watch->byte_limit) {
        return WATCH_BYTES;
    }
    return watch->entry_limit > 0 && watch->entries > watch->entry_limit ? WATCH_ENTRIES : WATCH_FINE;
}

static void remember_folder(struct level *level, const char *name) {
    size_t length = strlen(name) + 1;
    if (level->size + length > level->room) {
        level->room = level->room * 2 + length + 256;
        level->names = grow(level->names, level->room, 1);
    }
    memcpy(level->names + level->size, name, length);
    level->size += length;
}

/* A file of one name that was seen in this pass was moved meanwhile; one of several names counts for each. */
static bool is_new(struct watch *watch, const struct stat *info) {
    return info->st_nlink > 1 || inode_add(&watch->seen, info->st_ino);
}

static void count(struct watch *watch, const struct entry *entry) {
    struct level *level = &watch->level[watch->depth - 1];
    struct stat info;
    if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) {
        return;
    }
    if (entry->type != DT_DIR && fstatat(level->fd, entry->name, &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
        return; /* gone already */
    }
    if (entry->type == DT_DIR || S_ISDIR(info.st_mode)) {
        watch->entries += inode_add(&watch->seen, entry->inode);
        remember_folder(level, entry->name);
    } else if (is_new(watch, &info)) {
        watch->entries++;
        watch->bytes += S_ISREG(info.st_mode) ? info.st_size : 0;
    }
}

/* Reads one entry, or finds that there is none left. */
static void read_entry(struct watch *watch) {
    if (watch->at >= watch->filled) {
        long n = syscall(SYS_getdents64, watch->level[watch->depth - 1].fd, watch->buffer, sizeof watch->buffer);
        watch->at = 0;
        watch->filled = n > 0 ? (size_t)n : 0;
        watch->reading = n > 0;
        return;
    }
    const struct entry *entry = (const struct entry *)(const void *)(watch->buffer + watch->at);
    watch->at += entry->size;
    count(watch, entry);
}

static void descend(struct watch *watch) {
    struct level *level = &watch->level[watch->depth - 1];
    if (level->fd < 0 || level->next >= level->size) {
        pop(watch);
        return;
    }
    const char *name = level->names + level->next;
    level->next += strlen(name) + 1;
    push(watch, openat(level->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

/* True: the tree was seen, or as much of it as is over a limit. */
static bool walk(struct watch *watch) {
    for (int i = 0; i < SLICE && watch->depth > 0; i++, watch->steps++) {
        if (watch->reading) {
            read_entry(watch);
        } else {
            descend(watch);
        }
        if (compare(watch) != WATCH_FINE || watch->steps > MOST_STEPS + 8 * watch->entry_limit) {
            unwind(watch);
        }
    }
    return watch->depth == 0;
}

/* One slice of a pass; says when the next is due. */
enum watch_result watch_step(struct watch *watch, pid_t root) {
    int64_t cpu = cpu_ns();
    bool fresh = watch->begin == 0;
    if (fresh) {
        watch->begin = now_ns();
        watch->bytes = watch->entries = watch->steps = 0;
        inode_clear(&watch->seen);
        push(watch, openat(watch->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        unlinked_begin(watch->unlinked, root);
    }
    bool done = walk(watch);
    if (done && compare(watch) == WATCH_FINE) {
        done = unlinked_step(watch->unlinked, &watch->bytes);
    }
    enum watch_result now = compare(watch), result = brake(watch) ? WATCH_BYTES : WATCH_FINE;
    int64_t rest = now_ns() + idle_factor * (cpu_ns() - cpu);
    watch->due = rest;
    if (done) {
        result = result == WATCH_FINE && watch->last == now ? now : result;
        if (now == WATCH_FINE && watch->begin + pass_ns > rest) {
            watch->due = watch->begin + pass_ns;
        }
        watch->last = now;
        watch->begin = 0;
    }
    return result;
}
