/* The pipe from enter to supervise. Only enter holds its write end, and enter is not dumpable, so a program
 * cannot write here. Lines: `phase P`, `end P CODE SIGNAL CPU`, `fail STAGE ERRNO`, `killed N`, P being c or r. */
#include "jail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char phase_letter(enum phase phase) {
    return phase == PHASE_COMPILE ? 'c' : 'r';
}

void report_phase(int fd, enum phase phase) {
    dprintf(fd, "phase %c\n", phase_letter(phase));
}

void report_end(int fd, enum phase phase, int code, int signal, bool cpu_limit) {
    dprintf(fd, "end %c %d %d %d\n", phase_letter(phase), code, signal, cpu_limit ? 1 : 0);
}

void report_failure(int fd, const char *stage, int error) {
    dprintf(fd, "fail %s %d\n", stage, error);
}

void report_killed(int fd, long long count) {
    dprintf(fd, "killed %lld\n", count);
}

static void report_line(struct report *report, struct status *status) {
    char letter = 0, stage[33] = "";
    int code = 0, signal = 0, cpu = 0;
    long long killed = 0;
    if (sscanf(report->line, "phase %c", &letter) == 1) {
        report->started = true;
        status->phase = letter == 'c' ? PHASE_COMPILE : PHASE_RUN;
    } else if (sscanf(report->line, "end %c %d %d %d", &letter, &code, &signal, &cpu) == 4) {
        report->ended = true;
        status->phase = letter == 'c' ? PHASE_COMPILE : PHASE_RUN;
        status->code = code;
        status->signal = signal;
        status->reason = cpu != 0 ? REASON_CPU : REASON_NONE;
    } else if (sscanf(report->line, "fail %32[a-z] %d", stage, &code) == 2) {
        report->ended = true;
        status->reason = REASON_START;
        snprintf(status->error, sizeof status->error, "%s: errno %d", stage, code);
    } else if (sscanf(report->line, "killed %lld", &killed) == 1) {
        status->killed += killed;
    }
}

/* Takes what is there; fd is non-blocking. */
void report_read(struct report *report, int fd, struct status *status) {
    char chunk[256];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < n; i++) {
            if (chunk[i] == '\n') {
                report->line[report->used] = '\0';
                report->used = 0;
                report_line(report, status);
            } else if (report->used + 1 < sizeof report->line) {
                report->line[report->used++] = chunk[i];
            }
        }
    }
}
