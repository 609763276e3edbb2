// SPDX-License-Identifier: MIT
//
// A set of nodes: a bit for each 32 bytes of memory in which one is. Nodes are 56 bytes apart.
#ifndef PW_RUNTIME_R_NODE_SET_H
#define PW_RUNTIME_R_NODE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PW_R_CHUNK_SHIFT 20
#define PW_R_CHUNK_WORDS ((1u << PW_R_CHUNK_SHIFT) / 32 / 64)

struct pw_r_chunk {
    uint64_t number; // address >> PW_R_CHUNK_SHIFT, and one
    uint64_t *bits;
};

struct pw_r_set {
    struct pw_r_chunk *chunks; // open addressing
    size_t room, used;
};

// False: no memory. A set of zero bytes is empty.
bool pw_r_set_add(struct pw_r_set *set, const void *node);
void pw_r_set_remove(struct pw_r_set *set, const void *node); // which is in it
void pw_r_set_free(struct pw_r_set *set);

static inline struct pw_r_chunk *pw_r_set_place(const struct pw_r_set *set, uint64_t number) {
    size_t at = (number * 0x9E3779B97F4A7C15ull >> 32) & (set->room - 1);
    while (set->chunks[at].number && set->chunks[at].number != number) {
        at = (at + 1) & (set->room - 1);
    }
    return &set->chunks[at];
}

static inline bool pw_r_set_has(const struct pw_r_set *set, const void *node) {
    uintptr_t address = (uintptr_t)node;
    if (set->room == 0) {
        return false;
    }
    const struct pw_r_chunk *chunk = pw_r_set_place(set, (address >> PW_R_CHUNK_SHIFT) + 1);
    unsigned bit = (address >> 5) & (PW_R_CHUNK_WORDS * 64 - 1);
    return chunk->number && (chunk->bits[bit / 64] >> bit % 64 & 1);
}

#endif
