// SPDX-License-Identifier: MIT
#include "runtime/r/node_set.h"

#include "os/os.h"

#define FIRST_ROOM 256u

static size_t table_size(size_t room) {
    return pw_pages_for(room * sizeof(struct pw_r_chunk)) * PW_PAGE;
}

static bool enlarge(struct pw_r_set *set) {
    size_t room = set->room ? set->room * 2 : FIRST_ROOM;
    struct pw_r_set larger = {.room = room, .used = set->used};
    larger.chunks = pw_os_map_table(table_size(room));
    if (!larger.chunks) {
        return false;
    }
    for (size_t i = 0; i < set->room; i++) {
        if (set->chunks[i].number) {
            *pw_r_set_place(&larger, set->chunks[i].number) = set->chunks[i];
        }
    }
    if (set->chunks) {
        pw_os_unmap(set->chunks, table_size(set->room));
    }
    *set = larger;
    return true;
}

bool pw_r_set_add(struct pw_r_set *set, const void *node) {
    if (set->used * 2 >= set->room && !enlarge(set)) {
        return false;
    }
    uintptr_t address = (uintptr_t)node;
    uint64_t number = (address >> PW_R_CHUNK_SHIFT) + 1;
    struct pw_r_chunk *chunk = pw_r_set_place(set, number);
    if (!chunk->number) {
        chunk->bits = pw_os_map_table(PW_R_CHUNK_WORDS * sizeof *chunk->bits);
        if (!chunk->bits) {
            return false;
        }
        chunk->number = number;
        set->used++;
    }
    unsigned bit = (address >> 5) & (PW_R_CHUNK_WORDS * 64 - 1);
    chunk->bits[bit / 64] |= (uint64_t)1 << bit % 64;
    return true;
}

void pw_r_set_remove(struct pw_r_set *set, const void *node) {
    uintptr_t address = (uintptr_t)node;
    unsigned bit = (address >> 5) & (PW_R_CHUNK_WORDS * 64 - 1);
    pw_r_set_place(set, (address >> PW_R_CHUNK_SHIFT) + 1)->bits[bit / 64] &=
        ~((uint64_t)1 << bit % 64);
}

void pw_r_set_free(struct pw_r_set *set) {
    for (size_t i = 0; i < set->room; i++) {
        if (set->chunks[i].number) {
            pw_os_unmap(set->chunks[i].bits, PW_R_CHUNK_WORDS * sizeof *set->chunks[i].bits);
        }
    }
    if (set->chunks) {
        pw_os_unmap(set->chunks, table_size(set->room));
    }
    *set = (struct pw_r_set){0};
}
