// SPDX-License-Identifier: MIT
//
// The allocator behind us: the C library's own, under the names that a preloaded malloc does not
// replace, or that of a library which the program brought itself (libjemalloc, linked or preloaded
// after us). All blocks that are not ours come from this one, and go back to it.
#ifndef PW_PROCESS_C_LIBRARY_H
#define PW_PROCESS_C_LIBRARY_H

#include "pagewise.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

// Which one it is, is found out at the first call: other libraries' constructors allocate before
// ours runs. It stays so.
struct pw_behind {
    void *(*allocate)(size_t size);
    void *(*allocate_zeroed)(size_t count, size_t size);
    void *(*resize)(void *block, size_t size);
    void *(*allocate_aligned)(size_t alignment, size_t size);
    void (*release)(void *block);
    size_t (*usable_size)(void *block);
    bool is_other; // not the C library's
};

PW_API extern struct pw_behind pw_behind;

// Find out now.
void pw_behind_decide(void);

// The next function of this name after the preloaded library of ours, which defines this; nobody
// does where none is preloaded.
PW_API void *pw_find_next(const char *name) __attribute__((weak));

// Part of each preloaded library: is the first of ours, which serves, called so? One of the other
// kind behind it must not start. A second one of the same kind, from another folder, may: both say
// the same.
bool pw_first_preloaded_is(const char *library);

// Find out where the C library and the dynamic loader lie, and how it notes the size of a mapped
// block (pw_process.uncounted_header). No system call but that of a malloc and a free.
void pw_c_library_find(void);

// And which file the loader is: a system call, which a filter may end the process for.
void pw_c_library_identify_loader(void);

// Does `site` lie in one of them? Takes no lock. `otherwise`: the answer before they were found.
bool pw_c_library_contains(const void *site, bool otherwise);

// The C library could not serve a request. True when that may have been for want of a mapping, or
// for a limit on address space or data, and some of ours has been given up: it is worth asking
// again.
PW_API bool pw_process_relieve(void);

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
    void *block = pw_behind.allocate(size);
    return block || !pw_process_relieve() ? block : pw_behind.allocate(size);
}

static inline void *pw_c_calloc(size_t count, size_t size) {
    void *block = pw_behind.allocate_zeroed(count, size);
    return block || !pw_process_relieve() ? block : pw_behind.allocate_zeroed(count, size);
}

static inline void *pw_c_realloc(void *old, size_t size) {
    void *block = pw_behind.resize(old, size);
    return block || size == 0 || !pw_process_relieve() ? block : pw_behind.resize(old, size);
}

static inline void *pw_c_memalign(size_t alignment, size_t size) {
    void *block = pw_behind.allocate_aligned(alignment, size);
    return block || !pw_process_relieve() ? block : pw_behind.allocate_aligned(alignment, size);
}

// Does aligned_alloc refuse, with EINVAL, what is no power of two (glibc 2.38, as C17 asks)?
PW_API bool pw_c_refuses_odd_alignments(void);

static inline void pw_c_free(void *block) {
    pw_behind.release(block);
}

static inline size_t pw_c_usable_size(const void *block) {
    return pw_behind.usable_size((void *)(uintptr_t)block);
}

#endif
