/* Nothing of a run survives it. The supervisor is the sub-reaper of everything below it, so the kernel itself
 * is the proof: when wait() knows no child, no descendant is left.
 *
 * A loop that only kills never ends against a fork bomb. Two ways that do:
 *   the run has a user of its own:  one kill(-1) as that user. The kernel holds its process list meanwhile, and
 *                                   a fork in progress fails when a deadly signal waits for its parent.
 *   it shares the supervisor's:     stop descendants until two looks find no new one, then kill. */
#include "jail.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STOP_PASSES = 200 };
static const int64_t stop_time_ns = 3000000000;

/* A user id that nobody has, not even another supervisor at this moment: with it as real id and the run's as
 * effective one, kill(-1) reaches the run's processes and no other, while the run cannot signal this process. */
static uid_t nobody_at_all(void) {
    return (uid_t)(0xf0000000 + (unsigned)getpid());
}

/* Buries every dead child. True: the kernel knows no child of ours, living or dead. */
bool reap_now(struct reaper *reaper) {
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0) {
            return false;
        }
        if (pid < 0) {
            return errno == ECHILD;
        }
        if (pid == reaper->child) {
            reaper->child = 0;
            reaper->child_status = status;
        } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            reaper->killed++;
        }
    }
}

/* Kills every process of the run's own user at one blow. The saved id stays root's: the way back. False: that is
 * not possible here, as where the user namespace around us does not know these ids. */
bool reap_uid(const struct reaper *reaper) {
    if (!reaper->own_uid || setresuid(nobody_at_all(), reaper->uid, 0) != 0) {
        return false;
    }
    kill(-1, SIGKILL);
    if (setresuid(0, 0, 0) != 0) {
        abort();
    }
    return true;
}

static bool is_known(const struct process_list *known, const struct process *process) {
    for (size_t low = 0, high = known->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct process *at = &known->item[middle];
        if (at->pid == process->pid) {
            return at->start == process->start;
        }
        if (at->pid < process->pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static bool is_still(char state) {
    return state == 'T' || state == 't' || state == 'D';
}

/* A stopped process cannot fork, but another may wake it: every pass stops again what runs. */
static void stop_all(struct reaper *reaper) {
    struct process_list lists[2] = {{0}};
    int64_t end = now_ns() + stop_time_ns;
    int quiet = 0;
    for (int pass = 0; quiet < 2 && pass < STOP_PASSES && now_ns() < end; pass++) {
        struct process_list *found = &lists[pass % 2];
        const struct process_list *known = &lists[(pass + 1) % 2];
        bool moved = false;
        tree_scan(getpid(), found);
        for (size_t i = 0; i < found->count; i++) {
            const struct process *process = &found->item[i];
            moved = moved || !is_known(known, process);
            if (!is_still(process->state)) {
                process_signal(process, SIGSTOP);
            }
        }
        quiet = moved ? 0 : quiet + 1;
        reap_now(reaper);
    }
    free(lists[0].item);
    free(lists[1].item);
}

static void kill_all(void) {
    struct process_list found = {0};
    tree_scan(getpid(), &found);
    for (size_t i = 0; i < found.count; i++) {
        process_signal(&found.item[i], SIGKILL);
    }
    free(found.item);
}

/* Bounded: false when something still lives after the effort (the caller retires user and environment). */
bool reap_all(struct reaper *reaper, int signal_fd) {
    if (!reaper->on) {
        if (reaper->child > 0) {
            kill(reaper->child, SIGKILL);
            waitpid(reaper->child, &reaper->child_status, 0);
            reaper->child = 0;
        }
        return true;
    }
    bool swept = reap_uid(reaper);
    if (reap_now(reaper)) {
        return true;
    }
    int64_t end = now_ns() + reaper->effort_ns, again = now_ns() + (swept ? 50000000 : 0);
    while (!reap_now(reaper)) {
        if (now_ns() > end) {
            return false;
        }
        if (now_ns() >= again) {
            again = now_ns() + 200000000;
            reap_uid(reaper);
            stop_all(reaper);
            kill_all();
        }
        struct pollfd wait = {.fd = signal_fd, .events = POLLIN};
        struct signalfd_siginfo taken[16];
        if (poll(&wait, 1, 20) > 0 && read(signal_fd, taken, sizeof taken) < 0 && errno != EAGAIN) {
            return false;
        }
    }
    return true;
}
