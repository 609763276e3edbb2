// SPDX-License-Identifier: MIT
//
// Requests on the bump region that the DDmalloc paper measures against (section 4.1): efree does
// nothing, so that memory_limit and memory_get_usage() speak of all that was ever allocated.
#include "php_pagewise.h"

static bool start(void) {
    struct pw_heap_options options = pw_php_heap_options();
    pw_php.region = pw_region_new(&options);
    if (!pw_php.region) {
        pw_php_log_none("region");
    }
    return pw_php.region != NULL;
}

static void renew(void) {
    struct pw_heap_options options = pw_php_heap_options();
    struct pw_region *region = pw_region_new(&options);
    if (region) {
        pw_region_delete(pw_php.region);
        pw_php.region = region;
    }
}

static void statistics(struct pw_heap_statistics *out) {
    pw_region_statistics_read(pw_php.region, out);
}

static size_t used(bool real) {
    (void)real;
    struct pw_heap_statistics now;
    pw_region_statistics_read(pw_php.region, &now);
    pw_php.peak_region_bytes = MAX(pw_php.peak_region_bytes, now.live_bytes);
    return now.live_bytes;
}

// Nothing is ever given back: the peak is now.
static size_t peak(bool real) {
    used(real);
    return pw_php.peak_region_bytes;
}

static void reset_peak(void) {
    pw_php.peak_region_bytes = 0;
    used(true);
}

static void set_limit(size_t bytes) {
    pw_region_set_limit(pw_php.region, bytes);
}

static void *alloc(size_t size) {
    void *block = pw_region_alloc(pw_php.region, size);
    if (UNEXPECTED(!block)) {
        return pw_php_refused(size);
    }
    return block;
}

static void free_block(void *block) {
    (void)block;
}

static void *realloc_block(void *block, size_t size) {
    void *moved = pw_region_realloc(pw_php.region, block, size);
    if (UNEXPECTED(!moved)) {
        return pw_php_refused(size);
    }
    return moved;
}

static void free_all(void) {
    pw_region_free_all(pw_php.region);
    pw_php.peak_region_bytes = 0;
}

const struct pw_php_mode pw_php_region = {
    .name = "region",
    .text = "bump region, for comparison",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .realloc = realloc_block,
    .free_all = free_all,
    .renew = renew,
    .used = used,
    .peak = peak,
    .reset_peak = reset_peak,
    .set_limit = set_limit,
    .statistics = statistics,
};
