/* The jail's parts, one file each; every part is able to be off.
 *
 *   supervise (outside, per run)            enter (inside, pid 1 of the namespace)
 *     spawn    the child, unprivileged        program  environment, limits, layers, exec
 *     cgroup   memory of the run tree         limits   rlimits
 *     memory   the same without a cgroup      landlock paths
 *     watch    bytes and entries written      filter   system calls
 *     reap     nothing survives             probe*   attacks that show a layer to be active
 *     status   the one line of result
 */
#ifndef JAIL_H
#define JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { EXIT_USAGE = 2, EXIT_BROKEN = 3, EXIT_PROBE_STOPPED = 10 };

/* The descriptor on which `enter` finds the report pipe: supervise puts it there. */
enum { REPORT_FD = 3 };

/* util.c */
struct list {
    char **item;
    size_t count;
};
enum option_kind { OPTION_NUMBER, OPTION_TEXT, OPTION_LIST };
struct option_spec {
    const char *name; /* without the leading dashes */
    enum option_kind kind;
    void *to; /* long long, const char * or struct list */
};
int parse_options(int argc, char **argv, const struct option_spec *spec, size_t count);
_Noreturn void usage_error(const char *what, const char *value);
bool parse_number(const char *text, long long *to);
void *allocate(size_t count, size_t size);
void *grow(void *old, size_t count, size_t size);
int64_t now_ns(void);
int64_t cpu_ns(void);
bool write_all(int fd, const char *data, size_t size);
ssize_t read_text_at(int dir, const char *path, char *to, size_t size);
bool write_text_at(int dir, const char *path, const char *text);
void close_from(unsigned first);
void reset_signals(void);

/* status.c */
enum phase { PHASE_COMPILE, PHASE_RUN };
enum reason {
    REASON_NONE,
    REASON_TIME,
    REASON_MEMORY,
    REASON_CPU,
    REASON_OUTPUT,
    REASON_STOPPED,
    REASON_BYTES,
    REASON_ENTRIES,
    REASON_START,
};
struct status {
    int code;   /* -1: none */
    int signal; /* 0: none */
    enum reason reason;
    enum phase phase;
    int64_t wall_ns;
    int64_t cpu_ns;
    int64_t max_rss;     /* bytes, the largest single process */
    int64_t peak_memory; /* bytes of the whole tree, -1: unknown */
    long long killed;
    bool clean;
    char error[64]; /* [a-z0-9 ._-] only */
};
void status_write(int fd, const struct status *status);

/* report.c: what enter tells supervise, line by line */
struct report {
    char line[128];
    size_t used;
    bool started; /* a phase was announced */
    bool ended;   /* the program or its compilation has a result */
};
void report_phase(int fd, enum phase phase);
void report_end(int fd, enum phase phase, int code, int signal, bool cpu_limit);
void report_failure(int fd, const char *stage, int error);
void report_killed(int fd, long long count);
void report_read(struct report *report, int fd, struct status *status);

/* spawn.c */
struct identity {
    bool change;
    uid_t uid;
    gid_t gid;
};
struct cgroup;
pid_t spawn(char **argv, const struct identity *identity, const struct cgroup *cgroup, int report_write,
            bool clean, int *error_read);

/* cgroup.c */
struct cgroup {
    int dir; /* -1: off */
    const char *path;
    bool v2;
    bool keep;
    bool peak_known;
    long long kills_before;
};
bool cgroup_open(struct cgroup *group, const char *path, long long limit, bool keep);
bool cgroup_join(const struct cgroup *group);
bool cgroup_killed(const struct cgroup *group);
int64_t cgroup_peak(const struct cgroup *group);
void cgroup_close(struct cgroup *group);

/* proctree.c */
struct process {
    pid_t pid;
    pid_t parent;
    uint64_t start; /* clock ticks after boot; with pid, names one process for ever */
    char state;
    bool inside; /* a descendant of the one asked for */
};
struct process_list {
    struct process *item;
    size_t count;
    size_t room;
};
bool process_read(pid_t pid, struct process *to);
void tree_scan(pid_t root, struct process_list *list);
void tree_walk(pid_t root, struct process_list *list);
bool process_signal(const struct process *process, int signal);

/* reap.c */
struct reaper {
    bool on;
    pid_t child; /* the direct child; 0 once it is reaped */
    int child_status;
    bool own_uid;
    uid_t uid;
    long long killed;
    int64_t effort_ns; /* after that what still lives is reported */
};
bool reap_now(struct reaper *reaper);
bool reap_uid(const struct reaper *reaper);
bool reap_all(struct reaper *reaper, int signal_fd);

/* memory.c */
struct memory_watch {
    long long limit; /* 0: off */
    int64_t peak;
    int64_t due; /* ns */
    const struct list *tmpfs; /* paths as the program sees them */
    struct process_list tree;
    bool sole;      /* the tmpfs are the machine's, and this run is alone on them */
    int64_t before; /* bytes that they held then */
};
void memory_begin(struct memory_watch *watch, bool sole);
bool memory_over(struct memory_watch *watch, pid_t root);

/* watch.c */
enum watch_result { WATCH_FINE, WATCH_BYTES, WATCH_ENTRIES };
struct watch;
struct watch *watch_open(const char *dir, long long bytes, long long entries);
int64_t watch_due(const struct watch *watch);
enum watch_result watch_step(struct watch *watch, pid_t root);

/* inodes.c */
struct inode_set {
    ino_t *table; /* open addressing, 0: free */
    size_t count, room;
};
bool inode_add(struct inode_set *set, ino_t inode);
void inode_clear(struct inode_set *set);

/* unlinked.c */
struct unlinked;
struct unlinked *unlinked_open(dev_t device);
void unlinked_begin(struct unlinked *unlinked, pid_t root);
bool unlinked_step(struct unlinked *unlinked, long long *bytes);

/* limits.c */
struct limit {
    int resource;
    unsigned long long value;
};
bool limit_parse(const char *text, struct limit *to);
bool limit_apply(const struct limit *limit);

/* landlock.c */
bool landlock_apply(const struct list *read_only, const struct list *read_write);

/* filter_rules.c, filter.c */
enum { FILTER_ROOM = 4096 }; /* the kernel takes no more */
struct sock_filter;
size_t filter_build(const pid_t *protected_pids, size_t count, bool own_namespace, struct sock_filter *to);
bool filter_apply(const pid_t *protected_pids, size_t count, bool own_pid_namespace);

/* program.c */
struct enter_options {
    long long report_fd, filter, compile, clean;
    const char *cwd, *variables;
    struct list mkdir, env, rlimit, landlock_ro, landlock_rw, protect;
    struct list environment; /* env with the variables of the file over it */
    struct limit *limits;
    size_t limit_count;
    pid_t *protected_pids;
    size_t protected_count;
};
/* variables.c */
bool variables_over(const struct list *base, const char *path, struct list *to);

_Noreturn void program_run(const struct enter_options *options, char **argv, enum phase phase, int error_fd);

/* subcommands */
int supervise_main(int argc, char **argv);
int enter_main(int argc, char **argv);
int probe_main(int argc, char **argv);

/* probe_*.c: each returns true when its attack succeeded */
bool probe_clean(char **pids);
bool probe_filter(void);

#endif
