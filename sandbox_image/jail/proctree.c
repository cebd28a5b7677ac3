/* Which processes descend from this one, read from /proc. A process is named by id and start time together: an
 * id alone may have been given to another process since. */
#include "jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void append(struct process_list *list, const struct process *process) {
    if (list->count == list->room) {
        list->room = list->room * 2 + 64;
        list->item = grow(list->item, list->room, sizeof *list->item);
    }
    list->item[list->count++] = *process;
}

/* The name in the second field is the program's to choose: everything counts from the last bracket. A dead
 * leader whose threads live on counts as alive. */
bool process_read(pid_t pid, struct process *to) {
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_text_at(AT_FDCWD, path, text, sizeof text) <= 0) {
        return false;
    }
    const char *rest = strrchr(text, ')');
    char state = 0;
    int parent = 0;
    long threads = 0;
    unsigned long long start = 0;
    if (rest == NULL || sscanf(rest + 1,
                               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                               &state, &parent, &threads, &start) != 4) {
        return false;
    }
    *to = (struct process){.pid = pid, .parent = parent, .start = start, .state = state};
    if (state == 'Z' && threads > 1) {
        to->state = 'R';
    }
    return true;
}

static int by_pid(const void *a, const void *b) {
    pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;
    return (left > right) - (left < right);
}

/* Marks what has a marked parent until nothing changes: the number of rounds is the depth of the tree. */
static void mark(pid_t root, struct process_list *list) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *process = &list->item[i];
            if (process->inside) {
                continue;
            }
            const struct process key = {.pid = process->parent};
            const struct process *parent = bsearch(&key, list->item, list->count, sizeof key, by_pid);
            if (process->parent == root || (parent != NULL && parent->inside)) {
                process->inside = changed = true;
            }
        }
    }
}

static bool is_dead(const struct process *process) {
    return process->state == 'Z' || process->state == 'X';
}

/* The living descendants of root by one look at every process of the machine, ordered by id. */
void tree_scan(pid_t root, struct process_list *list) {
    list->count = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        long long pid = 0;
        struct process process;
        if (parse_number(entry->d_name, &pid) && process_read((pid_t)pid, &process)) {
            append(list, &process);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    qsort(list->item, list->count, sizeof *list->item, by_pid);
    mark(root, list);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].inside && !is_dead(&list->item[i])) {
            list->item[kept++] = list->item[i];
        }
    }
    list->count = kept;
}

static void append_children(pid_t pid, struct process_list *list) {
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char file[300];
        snprintf(file, sizeof file, "%s/children", entry->d_name);
        if (entry->d_name[0] == '.' || read_text_at(dirfd(dir), file, text, sizeof text) <= 0) {
            continue;
        }
        char *end = text;
        for (long child; (child = strtol(end, &end, 10)) > 0 && list->count < 100000;) {
            append(list, &(struct process){.pid = (pid_t)child, .parent = pid});
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* The same from the kernel's lists of children: its cost follows the run, not the machine, but it may miss a
 * process while the tree moves. For measuring, never for killing. Gives pid and parent only. */
void tree_walk(pid_t root, struct process_list *list) {
    static int supported = -1;
    if (supported < 0) {
        supported = access("/proc/thread-self/children", R_OK) == 0;
    }
    if (supported == 0) {
        tree_scan(root, list);
        return;
    }
    list->count = 0;
    append_children(root, list);
    for (size_t i = 0; i < list->count; i++) {
        append_children(list->item[i].pid, list);
    }
}

/* Signals that very process, or nothing. Where there is no handle on a process to be had, its id must do: the
 * moment between the look and the signal is then all that an id has to be given to another in. */
bool process_signal(const struct process *process, int signal) {
    struct process now;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0) {
        return (errno == ENOSYS || errno == EPERM) && process_read(process->pid, &now) &&
               now.start == process->start && kill(process->pid, signal) == 0;
    }
    bool done = process_read(process->pid, &now) && now.start == process->start &&
                syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
    close(fd);
    return done;
}
