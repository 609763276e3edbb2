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
bool pw_general_open(struct pw_process *process, const struct pw_options *options);

// What the usual way does not serve. All may answer from the C library.
PW_API void *pw_general_refill(struct pw_process *process, unsigned class_number);
PW_API void pw_general_flush(struct pw_process *process, unsigned class_number, void *block);
PW_API void *pw_general_allocate_large(struct pw_process *process, size_t size, size_t alignment,
                                       bool zeroed);
// False: pw_general_freed is to be called.
PW_API bool pw_general_free_large(struct pw_process *process, void *block);
// After a free that had more to do than usual, called from `site`.
PW_API void pw_general_freed(struct pw_process *process, const void *site);
PW_API void *pw_general_resize(struct pw_process *process, void *block, size_t size);
PW_API size_t pw_general_usable(struct pw_process *process, const void *block);

// The alignment is a power of two.
PW_API void *pw_general_memalign(struct pw_process *process, size_t alignment, size_t size);

static inline void *pw_general_malloc(struct pw_process *process, const struct pw_gate *gate,
                                      size_t size) {
    if (PW_UNLIKELY(size > gate->largest_small)) {
        return pw_general_allocate_large(process, size, 1, false);
    }
    unsigned class_number = pw_class_of(size);
    void *block = pw_cache_pop(class_number);
    return PW_LIKELY(block != NULL) ? block : pw_general_refill(process, class_number);
}

// The caller has multiplied.
static inline void *pw_general_calloc(struct pw_process *process, const struct pw_gate *gate,
                                      size_t size) {
    if (PW_UNLIKELY(size > gate->largest_small)) {
        return pw_general_allocate_large(process, size, 1, true);
    }
    void *block = pw_general_malloc(process, gate, size);
    return PW_LIKELY(block != NULL) ? memset(block, 0, size) : NULL;
}

// Had it no more to do than usual?
static inline bool pw_general_free(struct pw_process *process, const struct pw_gate *gate,
                                   void *block) {
    uintptr_t offset = (uintptr_t)block - gate->base;
    if (PW_UNLIKELY(offset >= __atomic_load_n(&gate->span, __ATOMIC_RELAXED))) {
        pw_c_free(block);
        return true;
    }
    unsigned class_number = pw_general_class_at(gate->classes, offset) - 1;
    if (PW_UNLIKELY(class_number >= PW_GENERAL_CLASSES)) { // or none
        return pw_general_free_large(process, block);
    }
    bool pushed = pw_cache_push(class_number, block);
    if (PW_UNLIKELY(!pushed)) {
        pw_general_flush(process, class_number, block);
    }
    return pushed;
}

// Bytes of a small block of ours; 0: it is another one.
static inline size_t pw_general_small_size(const struct pw_gate *gate, const void *block) {
    uintptr_t offset = (uintptr_t)block - gate->base;
    if (offset >= __atomic_load_n(&gate->span, __ATOMIC_RELAXED)) {
        return 0;
    }
    unsigned class_number = pw_general_class_at(gate->classes, offset) - 1;
    return class_number < PW_GENERAL_CLASSES ? pw_class_size(class_number) : 0;
}

// A small block stays where it is while it fits and is not too large by half.
static inline void *pw_general_realloc(struct pw_process *process, const struct pw_gate *gate,
                                       void *block, size_t size) {
    size_t held = block ? pw_general_small_size(gate, block) : 0;
    if (PW_UNLIKELY(held == 0)) {
        return block ? pw_general_resize(process, block, size)
                     : pw_general_malloc(process, gate, size);
    }
    if (size - 1 < held && (size > held / 2 || held == PW_CLASS_GRAIN)) { // and not of no bytes
        return block;
    }
    if (PW_UNLIKELY(size == 0)) {
        pw_general_free(process, gate, block);
        return NULL;
    }
    void *moved = pw_general_malloc(process, gate, size);
    if (PW_LIKELY(moved != NULL)) {
        memcpy(moved, block, held < size ? held : size);
        pw_general_free(process, gate, block);
    } else if (size <= held) {
        return block;
    }
    return moved;
}

#endif
