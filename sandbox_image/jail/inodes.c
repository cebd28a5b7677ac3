/* A set of inode numbers: one pass over a moving tree or over many descriptors counts a file once. */
#include "jail.h"

#include <stdlib.h>
#include <string.h>

static bool insert(ino_t *table, size_t room, ino_t inode) {
    size_t at = (size_t)(inode * 0x9e3779b97f4a7c15ULL) % room;
    while (table[at] != 0 && table[at] != inode) {
        at = (at + 1) % room;
    }
    bool new = table[at] == 0;
    table[at] = inode;
    return new;
}

static void make_room(struct inode_set *set) {
    size_t room = set->room * 2 + 64;
    ino_t *table = allocate(room, sizeof *table);
    for (size_t i = 0; i < set->room; i++) {
        if (set->table[i] != 0) {
            insert(table, room, set->table[i]);
        }
    }
    free(set->table);
    set->table = table;
    set->room = room;
}

/* True: it was not in the set. */
bool inode_add(struct inode_set *set, ino_t inode) {
    if (set->count * 2 >= set->room) {
        make_room(set);
    }
    bool new = insert(set->table, set->room, inode);
    set->count += new;
    return new;
}

void inode_clear(struct inode_set *set) {
    if (set->count > 0) {
        memset(set->table, 0, set->room * sizeof *set->table);
    }
    set->count = 0;
}
