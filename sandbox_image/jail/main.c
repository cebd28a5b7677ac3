/* One program, three parts: supervise (outside), enter (inside), probe (attacks). */
#include "jail.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int, char **);
    } part[] = {{"supervise", supervise_main}, {"enter", enter_main}, {"probe", probe_main}};
    for (size_t i = 0; argc > 1 && i < sizeof part / sizeof *part; i++) {
        if (strcmp(argv[1], part[i].name) == 0) {
            return part[i].run(argc - 2, argv + 2);
        }
    }
    fputs("usage: jail supervise|enter [OPTIONS] -- ARGV...\n       jail probe NAME [ARGUMENT...]\n", stderr);
    return EXIT_USAGE;
}
