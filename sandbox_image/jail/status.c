/* The one line that supervise writes when everything is over. Numbers and fixed words only: nothing that a
 * program can choose reaches it, so it cannot be forged by output, names or environment. */
#include "jail.h"

#include <stdio.h>

static const char *const reason_name[] = {
    [REASON_NONE] = "null",
    [REASON_TIME] = "\"time\"",
    [REASON_MEMORY] = "\"memory\"",
    [REASON_CPU] = "\"cpu\"",
    [REASON_OUTPUT] = "\"output\"",
    [REASON_STOPPED] = "\"stopped\"",
    [REASON_BYTES] = "\"workspace_bytes\"",
    [REASON_ENTRIES] = "\"workspace_entries\"",
    [REASON_START] = "\"start\"",
};

static const char *number_or_null(char *to, size_t size, bool known, int64_t value) {
    snprintf(to, size, known ? "%lld" : "null", (long long)value);
    return to;
}

void status_write(int fd, const struct status *status) {
    char line[768], code[24], signal_text[24], peak[24], error[96] = "null";
    if (status->error[0] != '\0') {
        snprintf(error, sizeof error, "\"%s\"", status->error);
    }
    int size = snprintf(line, sizeof line,
                        "{\"code\": %s, \"signal\": %s, \"reason\": %s, \"phase\": \"%s\", \"wall_ms\": %lld, "
                        "\"cpu_ms\": %lld, \"max_rss\": %lld, \"peak_memory\": %s, \"killed\": %lld, "
                        "\"clean\": %s, \"error\": %s}\n",
                        number_or_null(code, sizeof code, status->code >= 0, status->code),
                        number_or_null(signal_text, sizeof signal_text, status->signal > 0, status->signal),
                        reason_name[status->reason], status->phase == PHASE_COMPILE ? "compile" : "run",
                        (long long)(status->wall_ns / 1000000), (long long)(status->cpu_ns / 1000000),
                        (long long)status->max_rss,
                        number_or_null(peak, sizeof peak, status->peak_memory >= 0, status->peak_memory),
                        status->killed, status->clean ? "true" : "false", error);
    write_all(fd, line, (size_t)size);
}
