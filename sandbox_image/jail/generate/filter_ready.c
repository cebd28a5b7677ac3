/* Prints the filter of a run with a pid namespace of its own (pid 1 protected) as a C table. A part of the build. */
#include "jail.h"

#include <linux/filter.h>
#include <stdio.h>

int main(void) {
    struct sock_filter code[FILTER_ROOM];
    size_t length = filter_build(&(pid_t){1}, 1, true, code);
    if (length == 0) {
        fputs("the filter cannot be made\n", stderr);
        return 1;
    }
    printf("static const struct sock_filter filter_ready[] = {\n");
    for (size_t i = 0; i < length; i++) {
        printf("    {%u, %u, %u, %uU},\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
    }
    printf("};\n");
    return 0;
}
