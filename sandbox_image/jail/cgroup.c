/* Memory of the whole run tree, tmpfs included, in a cgroup directory of the run: v1 or v2 by its files. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long number_in(int dir, const char *file) {
    char text[64];
    return read_text_at(dir, file, text, sizeof text) > 0 ? strtoll(text, NULL, 10) : -1;
}

static bool write_number(int dir, const char *file, long long value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    return write_text_at(dir, file, text);
}

/* The counter behind "oom_kill " at the start of a line; 0 where the kernel has none. */
static long long kills(const struct cgroup *group) {
    char text[1024];
    if (read_text_at(group->dir, group->v2 ? "memory.events" : "memory.oom_control", text, sizeof text) <= 0) {
        return 0;
    }
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "oom_kill ", 9) == 0) {
            return strtoll(line + 9, NULL, 10);
        }
    }
    return 0;
}

/* v1: swap counts with memory, and its limit may not lie below the other's, so the order depends on whether
 * the limit grows or shrinks: a directory in use before is first opened wide. */
static bool set_limit(const struct cgroup *group, long long limit) {
    if (group->v2) {
        write_text_at(group->dir, "memory.swap.max", "0");
        return write_number(group->dir, "memory.max", limit);
    }
    write_text_at(group->dir, "memory.memsw.limit_in_bytes", "-1");
    if (!write_number(group->dir, "memory.limit_in_bytes", limit)) {
        return false;
    }
    write_number(group->dir, "memory.memsw.limit_in_bytes", limit);
    return true;
}

/* Makes the directory, or takes one that an earlier run kept, and sets it up. limit in bytes. */
bool cgroup_open(struct cgroup *group, const char *path, long long limit, bool keep) {
    group->path = path;
    group->keep = keep;
    bool fresh = mkdir(path, 0700) == 0;
    if (!fresh && errno != EEXIST) {
        return false;
    }
    group->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    group->v2 = group->dir >= 0 && faccessat(group->dir, "memory.max", F_OK, 0) == 0;
    if (group->dir < 0 || !set_limit(group, limit)) {
        int error = errno;
        cgroup_close(group);
        errno = error;
        return false;
    }
    write_text_at(group->dir, "memory.max_usage_in_bytes", "0");
    group->peak_known = fresh || !group->v2;
    group->kills_before = kills(group);
    return true;
}

/* By the child, for itself. On v1 the thread-wise file: moving one's own single thread takes no lock of the
 * whole machine, which costs milliseconds. */
bool cgroup_join(const struct cgroup *group) {
    return group->dir < 0 || (!group->v2 && write_text_at(group->dir, "tasks", "0")) ||
           write_text_at(group->dir, "cgroup.procs", "0");
}

bool cgroup_killed(const struct cgroup *group) {
    return group->dir >= 0 && kills(group) > group->kills_before;
}

/* v2 cannot set the peak of an earlier run back: then it is unknown. */
int64_t cgroup_peak(const struct cgroup *group) {
    if (group->dir < 0 || !group->peak_known) {
        return -1;
    }
    return number_in(group->dir, group->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
}

/* Its last member may still be on its way out: a short, bounded patience. */
void cgroup_close(struct cgroup *group) {
    if (group->dir >= 0) {
        close(group->dir);
    }
    group->dir = -1;
    if (group->keep) {
        return;
    }
    for (int tries = 0; rmdir(group->path) != 0 && errno == EBUSY && tries < 100; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
