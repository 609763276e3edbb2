// SPDX-License-Identifier: MIT
#include "share_map.h"

#include "calls.h"

#include <string.h>

#define SMALLEST      64u
#define LARGEST_START (1u << 17)
#define GROWTH        4 // few steps: each is an allocation, at which R may collect

static void make(struct share_map *map, size_t size) {
    map->keys = (const void **)R_alloc(size, sizeof *map->keys);
    map->values = (uint32_t *)R_alloc(size, sizeof *map->values);
    memset(map->keys, 0, size * sizeof *map->keys);
    map->size = size;
    map->used = 0;
}

void share_map_start(struct share_map *map, uint64_t expected) {
    size_t size = SMALLEST;
    while (size < LARGEST_START && size < expected * 2) {
        size *= 2;
    }
    make(map, size);
}

// Where the key is, or would be.
static size_t place_of(const struct share_map *map, const void *key) {
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 20) & (map->size - 1);
    while (map->keys[at] && map->keys[at] != key) {
        at = (at + 1) & (map->size - 1);
    }
    return at;
}

static void grow(struct share_map *map) {
    struct share_map old = *map;
    make(map, old.size * GROWTH);
    for (size_t i = 0; i < old.size; i++) {
        if (old.keys[i]) {
            share_map_put(map, old.keys[i], old.values[i]);
        }
    }
}

uint32_t share_map_put(struct share_map *map, const void *key, uint32_t fresh) {
    if (map->used >= map->size / 4 * 3) {
        grow(map);
    }
    size_t at = place_of(map, key);
    if (!map->keys[at]) {
        map->keys[at] = key;
        map->values[at] = fresh;
        map->used++;
    }
    return map->values[at];
}

uint32_t share_map_get(const struct share_map *map, const void *key, uint32_t otherwise) {
    size_t at = place_of(map, key);
    return map->keys[at] ? map->values[at] : otherwise;
}
