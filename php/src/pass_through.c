// SPDX-License-Identifier: MIT
//
// PHP's own heap behind our handlers: what it costs more than PHP alone is what the hook costs.
#include "php_pagewise.h"

static bool start(void) {
    return true;
}

// PHP's own functions speak of the heap that is set.
static zend_mm_heap *enter(void) {
    return zend_mm_set_heap(pw_php.own_heap);
}

static void leave(zend_mm_heap *hooked) {
    zend_mm_set_heap(hooked);
}

static size_t used(bool real) {
    zend_mm_heap *hooked = enter();
    size_t bytes = zend_memory_usage(real);
    leave(hooked);
    return bytes;
}

static size_t peak(bool real) {
    zend_mm_heap *hooked = enter();
    size_t bytes = zend_memory_peak_usage(real);
    leave(hooked);
    return bytes;
}

static void reset_peak(void) {
    zend_mm_heap *hooked = enter();
    zend_memory_reset_peak_usage();
    leave(hooked);
}

static size_t reclaim(void) {
    return zend_mm_gc(pw_php.own_heap);
}

static void set_limit(size_t bytes) {
    zend_mm_heap *hooked = enter();
    zend_set_memory_limit(bytes ? bytes : SIZE_MAX);
    leave(hooked);
}

static void *alloc(size_t size) {
    if (UNEXPECTED(zend_mm_is_fallible())) {
        zend_mm_heap *hooked = enter();
        void *block = _femalloc(size);
        leave(hooked);
        return block;
    }
    return _zend_mm_alloc(pw_php.own_heap, size);
}

static void free_block(void *block) {
    _zend_mm_free(pw_php.own_heap, block);
}

static void *realloc_block(void *block, size_t size) {
    if (UNEXPECTED(zend_mm_is_fallible())) {
        zend_mm_heap *hooked = enter();
        void *moved = _ferealloc(block, size);
        leave(hooked);
        return moved;
    }
    return _zend_mm_realloc(pw_php.own_heap, block, size);
}

static void free_all(void) {
    zend_mm_shutdown(pw_php.own_heap, false, true);
}

const struct pw_php_mode pw_php_pass_through = {
    .name = "pass-through",
    .text = "PHP's own heap behind our handlers, to measure these",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .realloc = realloc_block,
    .free_all = free_all,
    .used = used,
    .peak = peak,
    .reset_peak = reset_peak,
    .reclaim = reclaim,
    .set_limit = set_limit,
};
