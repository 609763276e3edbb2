// SPDX-License-Identifier: MIT
//
// The malloc family of policy `general`: every block of the program is ours. Up to 32 KB from the
// general room's segments, larger ones as extents (block.c), and from the C library what neither
// can serve. The usual way through is inline, so that libpagewise-general.so has it in malloc and
// free themselves; the rest is done by the one copy of libpagewise.so in the process.
#ifndef PW_BLOCK_SMALL_H
#define PW_BLOCK_SMALL_H

#include "process/c_library.h"
#include "process/state.h"

#include <string.h>

#define PW_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define PW_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

// Serve all sizes from now on. False: there is no address space for our tables.
bool pw_general_open(const struct pw_options *options);

// What the usual way does not serve. All may answer from the C library.
PW_API void *pw_general_refill(unsigned class_number);
PW_API void pw_general_flush(unsigned class_number, void *block);
PW_API void *pw_general_allocate_large(size_t size, size_t alignment, bool zeroed);
PW_API void pw_general_free_large(void *block);
// After a free that had more to do than usual, called from `site`.
PW_API void pw_general_freed(const void *site);
PW_API void *pw_general_resize(void *block, size_t size);
PW_API size_t pw_general_usable(const void *block);

// The alignment is a power of two.
PW_API void *pw_general_memalign(size_t alignment, size_t size);

static inline void *pw_general_malloc(size_t size) {
    if (PW_UNLIKELY(size > pw_gate.largest_small)) {
        return pw_general_allocate_large(size, 1, false);
    }
    unsigned class_number = pw_class_of(size);
    void *block = pw_cache_pop(class_number);
    return PW_LIKELY(block != NULL) ? block : pw_general_refill(class_number);
}

// The caller has multiplied.
static inline void *pw_general_calloc(size_t size) {
    if (PW_UNLIKELY(size > pw_gate.largest_small)) {
        return pw_general_allocate_large(size, 1, true);
    }
    void *block = pw_general_malloc(size);
    return PW_LIKELY(block != NULL) ? memset(block, 0, size) : NULL;
}

// Had it no more to do than usual?
static inline bool pw_general_free(void *block) {
    uintptr_t offset = (uintptr_t)block - pw_gate.base;
    if (PW_UNLIKELY(offset >= __atomic_load_n(&pw_gate.span, __ATOMIC_RELAXED))) {
        pw_c_free(block);
        return true;
    }
    unsigned class_and_one = pw_general_class_at(pw_gate.classes, offset);
    if (PW_UNLIKELY(class_and_one == 0)) {
        pw_general_free_large(block);
        return true;
    }
    bool pushed = pw_cache_push(class_and_one - 1, block);
    if (PW_UNLIKELY(!pushed)) {
        pw_general_flush(class_and_one - 1, block);
    }
    return pushed;
}

// Bytes of a small block of ours; 0: it is another one.
static inline size_t pw_general_small_size(const void *block) {
    uintptr_t offset = (uintptr_t)block - pw_gate.base;
    if (offset >= __atomic_load_n(&pw_gate.span, __ATOMIC_RELAXED)) {
        return 0;
    }
    unsigned class_and_one = pw_general_class_at(pw_gate.classes, offset);
    return class_and_one ? pw_class_size(class_and_one - 1) : 0;
}

// A small block stays where it is while it fits and is not too large by half.
static inline void *pw_general_realloc(void *block, size_t size) {
    size_t held = block ? pw_general_small_size(block) : 0;
    if (PW_UNLIKELY(held == 0)) {
        return block ? pw_general_resize(block, size) : pw_general_malloc(size);
    }
    if (size - 1 < held && (size > held / 2 || held == PW_CLASS_GRAIN)) { // and not of no bytes
        return block;
    }
    if (PW_UNLIKELY(size == 0)) {
        pw_general_free(block);
        return NULL;
    }
    void *moved = pw_general_malloc(size);
    if (PW_LIKELY(moved != NULL)) {
        memcpy(moved, block, held < size ? held : size);
        pw_general_free(block);
    } else if (size <= held) {
        return block;
    }
    return moved;
}

#endif
