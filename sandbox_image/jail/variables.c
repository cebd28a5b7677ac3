/* A caller's variables: read from a file before anything of a program runs, and given to nothing but its exec.
 * They stand in no argument list, which anyone may read under /proc, and no loader before that exec sees them. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VARIABLES_BYTES = 128 << 10 };

/* The whole file with a NUL behind it; NULL and errno when it cannot be read or is too large. */
static char *whole(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return NULL;
    }
    char *text = allocate(VARIABLES_BYTES + 1, 1);
    ssize_t n = 1;
    *size = 0;
    while (*size < VARIABLES_BYTES && (n = read(fd, text + *size, VARIABLES_BYTES - *size)) != 0) {
        if (n > 0) {
            *size += (size_t)n;
        } else if (errno != EINTR) {
            break;
        }
    }
    int error = n < 0 ? errno : E2BIG;
    close(fd);
    if (n != 0) {
        free(text);
        errno = error;
        return NULL;
    }
    return text;
}

static void append(struct list *to, char *item) {
    to->item = grow(to->item, to->count + 2, sizeof *to->item);
    to->item[to->count++] = item;
    to->item[to->count] = NULL;
}

static bool replaced(const struct list *by, const char *variable) {
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < by->count; i++) {
        if (strncmp(by->item[i], variable, length) == 0) {
            return true;
        }
    }
    return false;
}

/* What a program gets: the variables of the file (`NAME=value`, each ended by a NUL), and those of `base` that the
 * file does not have. False and errno when the file cannot be read. */
bool variables_over(const struct list *base, const char *path, struct list *to) {
    struct list more = {0};
    if (path != NULL) {
        size_t size = 0;
        char *text = whole(path, &size);
        if (text == NULL) {
            return false;
        }
        for (char *at = text; at < text + size; at += strlen(at) + 1) {
            append(&more, at);
        }
    }
    to->item = allocate(1, sizeof *to->item);
    to->count = 0;
    for (size_t i = 0; i < base->count; i++) {
        if (!replaced(&more, base->item[i])) {
            append(to, base->item[i]);
        }
    }
    for (size_t i = 0; i < more.count; i++) {
        append(to, more.item[i]);
    }
    return true;
}
