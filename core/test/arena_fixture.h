// SPDX-License-Identifier: MIT
//
// An arena of a test's own, and the model that the test keeps beside it. Models are mapped, not
// allocated, so that they start out zero at no cost.
#ifndef PW_TEST_ARENA_FIXTURE_H
#define PW_TEST_ARENA_FIXTURE_H

#include "extent/extent.h"
#include "support.h"

#include <sys/mman.h>

static inline void *model_map(size_t size) {
    void *model = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(model != MAP_FAILED);
    return model;
}

static inline void arena_begin(struct pw_arena *arena, struct pw_stats *stats) {
    pw_stats_start(stats);
    CHECK(pw_arena_start(arena, stats, 2));
}

// Every arena starts at the same place: make room for the next one.
static inline void arena_end(struct pw_arena *arena) {
    munmap(arena->base, (size_t)arena->end * PW_PAGE);
}

static inline char *page_at(const struct pw_arena *arena, const struct pw_extent *extent,
                            uint32_t page) {
    return pw_extent_address(arena, extent) + (size_t)page * PW_PAGE;
}

#endif
