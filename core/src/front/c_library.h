// SPDX-License-Identifier: MIT
//
// The C library's own allocator, under the names that a preloaded malloc does not replace.
#ifndef PW_FRONT_C_LIBRARY_H
#define PW_FRONT_C_LIBRARY_H

#include "front/block.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

// mallopt(3): larger blocks than M_MMAP_THRESHOLD are mappings of their own, and that becomes the
// size of the largest such block that was freed, up to a limit.
#define PW_C_FIRST_MAPPED  ((size_t)128 << 10)
#define PW_C_ALWAYS_MAPPED ((size_t)32 << 20)

static inline size_t pw_c_largest_unmapped(size_t largest_freed) {
    return largest_freed > PW_C_FIRST_MAPPED ? largest_freed : PW_C_FIRST_MAPPED - 1;
}

// The same, asked twice where our reserve of mappings helps. A request for no bytes is not asked
// twice: realloc answers it with NULL and has released the block.
static inline void *pw_c_malloc(size_t size) {
    void *block = __libc_malloc(size);
    return block || !pw_block_relieve() ? block : __libc_malloc(size);
}

static inline void *pw_c_calloc(size_t count, size_t size) {
    void *block = __libc_calloc(count, size);
    return block || !pw_block_relieve() ? block : __libc_calloc(count, size);
}

static inline void *pw_c_realloc(void *old, size_t size) {
    void *block = __libc_realloc(old, size);
    return block || size == 0 || !pw_block_relieve() ? block : __libc_realloc(old, size);
}

static inline void *pw_c_memalign(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    return block || !pw_block_relieve() ? block : __libc_memalign(alignment, size);
}

#endif
