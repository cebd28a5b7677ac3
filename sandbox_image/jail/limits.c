/* Resource limits of one process, named in lower case: `nproc=512`. */
#include "jail.h"

#include <string.h>
#include <sys/resource.h>

bool limit_parse(const char *text, struct limit *to) {
    static const struct {
        const char *name;
        int resource;
    } known[] = {
        {"as", RLIMIT_AS},         {"core", RLIMIT_CORE},       {"cpu", RLIMIT_CPU},
        {"data", RLIMIT_DATA},     {"fsize", RLIMIT_FSIZE},     {"memlock", RLIMIT_MEMLOCK},
        {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},     {"stack", RLIMIT_STACK},
        {"msgqueue", RLIMIT_MSGQUEUE},
    };
    const char *equals = strchr(text, '=');
    long long value = 0;
    if (equals == NULL || !parse_number(equals + 1, &value)) {
        return false;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = (size_t)(equals - text);
        if (strlen(known[i].name) == length && strncmp(text, known[i].name, length) == 0) {
            to->resource = (int)known[i].resource;
            to->value = (unsigned long long)value;
            return true;
        }
    }
    return false;
}

/* Never raises a hard limit: a stricter one from outside stays. CPU time keeps one second between the signal
 * that a program may handle (SIGXCPU) and the one that it may not. */
bool limit_apply(const struct limit *limit) {
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)limit->resource, &now) != 0) {
        return false;
    }
    rlim_t soft = (rlim_t)limit->value;
    rlim_t hard = limit->resource == RLIMIT_CPU ? soft + 1 : soft;
    struct rlimit wanted = {
        .rlim_cur = soft < now.rlim_max ? soft : now.rlim_max,
        .rlim_max = hard < now.rlim_max ? hard : now.rlim_max,
    };
    return setrlimit((__rlimit_resource_t)limit->resource, &wanted) == 0;
}
