// SPDX-License-Identifier: MIT
//
// A library in front of malloc as many are written: each function looks for the next one when it is
// first called, and nothing is kept for what that look-up allocates or frees.
#include <dlfcn.h>
#include <stddef.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t size) {
    static void *(*next)(size_t);
    next = next ? next : NEXT(malloc);
    return next(size);
}

void *realloc(void *block, size_t size) {
    static void *(*next)(void *, size_t);
    next = next ? next : NEXT(realloc);
    return next(block, size);
}

void free(void *block) {
    static void (*next)(void *);
    next = next ? next : NEXT(free);
    next(block);
}
