// SPDX-License-Identifier: MIT
//
// Another allocator's malloc behind our handlers, for comparison: pagewise.malloc names its
// library. It has no free-all and no limit. The library comes into a namespace of names of its own
// (RTLD_LOCAL), so that the rest of the process keeps its malloc.
#include "php_pagewise.h"

#include <dlfcn.h>

static bool start(void) {
    const char *library = pw_php.malloc_library;
    void *handle = library && *library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) {
        pw_php_log("pagewise.mode=malloc needs a library in pagewise.malloc: %s. PHP keeps its own "
                   "allocator",
                   library && *library ? dlerror() : "it is empty");
        return false;
    }
    *(void **)&pw_php.foreign_malloc = dlsym(handle, "malloc");
    *(void **)&pw_php.foreign_free = dlsym(handle, "free");
    *(void **)&pw_php.foreign_realloc = dlsym(handle, "realloc");
    if (!pw_php.foreign_malloc || !pw_php.foreign_free || !pw_php.foreign_realloc) {
        pw_php_log("%s has no malloc, free and realloc. PHP keeps its own allocator", library);
        return false;
    }
    return true;
}

static void *alloc(size_t size) {
    void *block = pw_php.foreign_malloc(size);
    return EXPECTED(block != NULL) ? block : pw_php_refused(size);
}

static void free_block(void *block) {
    pw_php.foreign_free(block);
}

static void *realloc_block(void *block, size_t size) {
    void *moved = pw_php.foreign_realloc(block, size ? size : 1);
    return EXPECTED(moved != NULL) ? moved : pw_php_refused(size);
}

static size_t unknown(bool real) {
    (void)real;
    return 0;
}

static void no_reset(void) {
}

static void no_limit(size_t bytes) {
    (void)bytes;
}

const struct pw_php_mode pw_php_foreign = {
    .name = "malloc",
    .text = "the malloc of pagewise.malloc, for comparison (no memory_limit)",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .realloc = realloc_block,
    .used = unknown,
    .peak = unknown,
    .reset_peak = no_reset,
    .set_limit = no_limit,
};
