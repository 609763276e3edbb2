// SPDX-License-Identifier: MIT
//
// Part of libpagewise-general.so: what jemalloc offers beyond malloc. A program that is linked with
// jemalloc may hand blocks of malloc to these functions, and under policy general those are ours.
// All else goes to jemalloc, whose blocks of mallocx are not ours, and which free and realloc find
// behind us.
#include "block/small.h"
#include "process/c_library.h"
#include "process/state.h"

PW_API void dallocx(void *block, int flags) {
    static void (*next)(void *, int);
    if (!next) {
        next = (void (*)(void *, int))pw_find_next("dallocx");
    }
    if (!next || pw_gate_contains(block)) {
        pw_general_free(&pw_process, &pw_gate, block);
    } else {
        next(block, flags);
    }
}

PW_API void sdallocx(void *block, size_t size, int flags) {
    (void)size;
    dallocx(block, flags);
}

PW_API size_t sallocx(const void *block, int flags) {
    (void)flags;
    return pw_general_usable(&pw_process, block);
}

// Ours never grow in place: the size is what it was.
PW_API size_t xallocx(void *block, size_t size, size_t extra, int flags) {
    static size_t (*next)(void *, size_t, size_t, int);
    if (!next) {
        next = (size_t(*)(void *, size_t, size_t, int))pw_find_next("xallocx");
    }
    return !next || pw_gate_contains(block) ? pw_general_usable(&pw_process, block)
                                            : next(block, size, extra, flags);
}

// The flags (alignment, zero) are jemalloc's affair, and so the new block is.
PW_API void *rallocx(void *block, size_t size, int flags) {
    static void *(*next)(void *, size_t, int), *(*fresh)(size_t, int);
    if (!next || !fresh) {
        next = (void *(*)(void *, size_t, int))pw_find_next("rallocx");
        fresh = (void *(*)(size_t, int))pw_find_next("mallocx");
    }
    if (!next || !fresh) {
        return pw_general_realloc(&pw_process, &pw_gate, block, size);
    }
    if (!pw_gate_contains(block)) {
        return next(block, size, flags);
    }
    size_t held = pw_general_usable(&pw_process, block);
    void *moved = fresh(size, flags);
    if (moved) {
        memcpy(moved, block, held < size ? held : size);
        pw_general_free(&pw_process, &pw_gate, block);
    }
    return moved;
}
