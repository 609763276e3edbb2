// SPDX-License-Identifier: MIT
//
// A map from addresses to numbers.
#ifndef PAGEWISE_R_SHARE_MAP_H
#define PAGEWISE_R_SHARE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct share_map { // open addressing; its memory is R_alloc's, and so ends with the .Call
    const void **keys;
    uint32_t *values;
    size_t size, used;
};

// `expected`: keys, at most.
void share_map_start(struct share_map *map, uint64_t expected);

// The value of a key; where there is none, `fresh` is put in, and returned.
uint32_t share_map_put(struct share_map *map, const void *key, uint32_t fresh);

// The value of a key, or `otherwise`.
uint32_t share_map_get(const struct share_map *map, const void *key, uint32_t otherwise);

#endif
