// SPDX-License-Identifier: MIT
//
// The malloc family and the copy functions as the program calls them. This file is compiled twice:
// preload.c gives them their own names, before the C library's; hooks.c puts them into the GOTs of
// R and its packages. Whoever includes it defines
//
//   FAMILY(name)   what the function that stands for `name` is called
//   FAMILY_API     its linkage
//   NEXT(name)     the function of the same name that it stands before
//
// and what family_mappings.h says.
//
// Small requests cost a comparison and a jump more than before, so what is for large ones stays in
// functions of its own: whatever a function calls, it saves registers for before it compares. The
// rest of the work is done by the one copy of libpagewise.so in the process.

#include "block/block.h"
#include "block/copying.h"
#include "block/foreign.h"
#include "process/c_library.h"
#include "process/pool_threads.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "runtime/r/ask.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SITE                __builtin_return_address(0)
#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define SELDOM              __attribute__((noinline, cold))
#define FOREIGN_STEP        ((size_t)256 << 10) // small bytes between two looks at the C library's heap

// --- allocation --------------------------------------------------------------

static size_t small_bytes; // since the last look; a racy sum is enough

// True when the C library's heap is to be looked at.
static inline bool count_small(size_t size) {
    small_bytes += size;
    return UNLIKELY(small_bytes > FOREIGN_STEP);
}

static SELDOM void look_at_foreign(void) {
    small_bytes = 0;
    if (pw_is_on()) {
        pw_foreign_changed(&pw_process);
    }
}

static SELDOM void *refuse(void) {
    errno = ENOMEM;
    return NULL;
}

// Policy ksm: a block that the C library has mapped is offered to KSM.
static SELDOM void *offer_mergeable(void *block) {
    if (block && ((size_t *)block)[-1] & 2) {
        int saved = errno;
        uintptr_t start = (uintptr_t)block & ~(PW_PAGE - 1);
        madvise((void *)start, ((size_t *)block)[-1] & ~(size_t)7, MADV_MERGEABLE);
        errno = saved;
    }
    return block;
}

static inline void *offer(void *block) {
    return UNLIKELY(pw_gate.mergeable) ? offer_mergeable(block) : block;
}

// What the C library has answered.
static SELDOM void *offer_or_ask_again(void *block, size_t size) {
    if (!block && pw_process_relieve()) {
        block = pw_behind.allocate(size);
    }
    return offer(block);
}

// A block that could not be ours was asked for already, and its collection with it.
static SELDOM void *allocate_after_look(size_t size, bool asked, const void *site) {
    look_at_foreign();
    if (!asked && pw_r_collection_comes_first(&pw_process, size, site)) {
        small_bytes = FOREIGN_STEP; // to see the second attempt
        return refuse();
    }
    return offer(pw_c_malloc(size));
}

static SELDOM void *allocate_large(size_t size, const void *site) {
    bool refused;
    void *block = pw_block_malloc(&pw_process, size, site, &refused);
    if (block || refused) {
        return refused ? refuse() : block;
    }
    return count_small(size) ? allocate_after_look(size, true, site) : offer(pw_c_malloc(size));
}

FAMILY_API void *FAMILY(malloc)(size_t size) {
    if (UNLIKELY(size >= pw_gate.threshold)) {
        return allocate_large(size, SITE);
    }
    if (count_small(size)) {
        return allocate_after_look(size, false, SITE);
    }
    void *block = pw_behind.allocate(size);
    return LIKELY(block && !pw_gate.mergeable) ? block : offer_or_ask_again(block, size);
}

static SELDOM void *allocate_zeroed_large(size_t count, size_t size, const void *site) {
    size_t total = count * size;
    void *block = NULL;
    if (total >= pw_gate.threshold) {
        block = pw_block_allocate(&pw_process, total, 1, true, site);
    }
    if (block) {
        return block;
    }
    if (count_small(total)) {
        look_at_foreign();
    }
    return offer(pw_c_calloc(count, size));
}

FAMILY_API void *FAMILY(calloc)(size_t count, size_t size) {
    size_t total;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        return refuse();
    }
    if (UNLIKELY(total >= pw_gate.threshold || small_bytes + total > FOREIGN_STEP)) {
        return allocate_zeroed_large(count, size, SITE);
    }
    small_bytes += total;
    return offer(pw_c_calloc(count, size));
}

static SELDOM void release_ours(void *block, const void *site) {
    if (!pw_block_free(&pw_process, block, site)) {
        pw_c_free(block);
    }
}

FAMILY_API void FAMILY(free)(void *block) {
    if (UNLIKELY(pw_gate_contains(block))) {
        release_ours(block, SITE);
    } else {
        pw_c_free(block);
    }
}

// C23's: what they say beside the address is not needed. No cfree: see docs/design/entry.md.
FAMILY_API void FAMILY(free_sized)(void *block, size_t size) {
    (void)size;
    FAMILY(free)(block);
}

FAMILY_API void FAMILY(free_aligned_sized)(void *block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    FAMILY(free)(block);
}

// A block of the C library that grows past the threshold becomes ours.
static void *take_over(void *block, size_t size, const void *site) {
    void *moved = pw_block_allocate(&pw_process, size, 1, false, site);
    if (moved) {
        size_t held = pw_c_usable_size(block);
        memcpy(moved, block, held < size ? held : size);
        pw_c_free(block);
    }
    return moved;
}

FAMILY_API void *FAMILY(realloc)(void *block, size_t size) {
    if (!block) {
        return FAMILY(malloc)(size);
    }
    if (UNLIKELY(pw_gate_contains(block) && pw_owns(block))) {
        if (size == 0) {
            pw_block_free(&pw_process, block, SITE);
            return NULL;
        }
        return pw_block_resize(&pw_process, block, size, SITE);
    }
    if (UNLIKELY(pw_gate_contains(block))) {
        pw_block_reject_dead(&pw_process, block, "realloc");
    }
    if (UNLIKELY(size >= pw_gate.threshold)) {
        void *moved = take_over(block, size, SITE);
        if (moved) {
            return moved;
        }
    }
    return offer(pw_c_realloc(block, size));
}

FAMILY_API void *FAMILY(reallocarray)(void *block, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return FAMILY(realloc)(block, total);
}

static void *allocate_aligned(size_t alignment, size_t size, const void *site) {
    if (UNLIKELY(size >= pw_gate.threshold && alignment <= PW_PAGE &&
                 (alignment & (alignment - 1)) == 0)) {
        void *block = pw_block_allocate(&pw_process, size, alignment, false, site);
        if (block) {
            return block;
        }
    }
    if (count_small(size)) {
        look_at_foreign();
    }
    return offer(pw_c_memalign(alignment, size));
}

FAMILY_API void *FAMILY(memalign)(size_t alignment, size_t size) {
    return allocate_aligned(alignment, size, SITE);
}

FAMILY_API void *FAMILY(aligned_alloc)(size_t alignment, size_t size) {
    if (UNLIKELY(__builtin_popcountl(alignment) != 1) && pw_c_refuses_odd_alignments()) {
        errno = EINVAL;
        return NULL;
    }
    return allocate_aligned(alignment, size, SITE);
}

FAMILY_API int FAMILY(posix_memalign)(void **block, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    int saved = errno;
    void *got = allocate_aligned(alignment, size, SITE);
    errno = saved;
    if (!got) {
        return ENOMEM;
    }
    *block = got;
    return 0;
}

FAMILY_API void *FAMILY(valloc)(size_t size) {
    return allocate_aligned(PW_PAGE, size, SITE);
}

FAMILY_API void *FAMILY(pvalloc)(size_t size) {
    size_t rounded;
    if (__builtin_add_overflow(size, PW_PAGE - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate_aligned(PW_PAGE, rounded & ~(PW_PAGE - 1), SITE);
}

FAMILY_API size_t FAMILY(malloc_usable_size)(void *block) {
    if (!block) {
        return 0;
    }
    if (UNLIKELY(pw_gate_contains(block) && pw_owns(block))) {
        return pw_block_usable(&pw_process, block);
    }
    return pw_c_usable_size(block);
}

// --- copies and fills --------------------------------------------------------

static SELDOM void *copy_large(void *to, const void *from, size_t size, const void *site) {
    return pw_block_copy(&pw_process, to, from, size, site) ? to : NEXT(memcpy)(to, from, size);
}

static SELDOM void *move_large(void *to, const void *from, size_t size, const void *site) {
    return pw_block_copy(&pw_process, to, from, size, site) ? to : NEXT(memmove)(to, from, size);
}

static SELDOM void *fill_large(void *to, int value, size_t size) {
    bool zeroed = value == 0 && pw_block_zero(&pw_process, to, size);
    return zeroed ? to : NEXT(memset)(to, value, size);
}

FAMILY_API void *FAMILY(memcpy)(void *restrict to, const void *restrict from, size_t size) {
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? copy_large(to, from, size, SITE) : NEXT(memcpy)(to, from, size);
}

FAMILY_API void *FAMILY(memmove)(void *to, const void *from, size_t size) {
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? move_large(to, from, size, SITE) : NEXT(memmove)(to, from, size);
}

FAMILY_API void *FAMILY(memset)(void *to, int value, size_t size) {
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? fill_large(to, value, size) : NEXT(memset)(to, value, size);
}

extern void __chk_fail(void) __attribute__((noreturn));

FAMILY_API void *FAMILY(__memcpy_chk)(void *restrict to, const void *restrict from, size_t size,
                                      size_t room) {
    if (UNLIKELY(size > room)) {
        __chk_fail();
    }
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? copy_large(to, from, size, SITE) : NEXT(memcpy)(to, from, size);
}

FAMILY_API void *FAMILY(__memmove_chk)(void *to, const void *from, size_t size, size_t room) {
    if (UNLIKELY(size > room)) {
        __chk_fail();
    }
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? move_large(to, from, size, SITE) : NEXT(memmove)(to, from, size);
}

FAMILY_API void *FAMILY(__memset_chk)(void *to, int value, size_t size, size_t room) {
    if (UNLIKELY(size > room)) {
        __chk_fail();
    }
    bool large = size >= pw_gate.copy_threshold;
    return UNLIKELY(large) ? fill_large(to, value, size) : NEXT(memset)(to, value, size);
}

// --- threads --------------------------------------------------------------------

// A thread of a pool is told apart from others: it may be known not to write (quiet.h).
FAMILY_API int FAMILY(pthread_create)(pthread_t *restrict thread,
                                      const pthread_attr_t *restrict attributes,
                                      void *(*start)(void *), void *restrict argument) {
    return pw_quiet_create(NEXT(pthread_create), thread, attributes, start, argument, SITE);
}

// A child that shares our memory is none of our threads, and waits for nobody but after vfork.
FAMILY_API int FAMILY(clone)(int (*start)(void *), void *stack, int flags, void *argument, ...) {
    va_list rest;
    va_start(rest, argument);
    void *parent_id = va_arg(rest, void *);
    void *storage = va_arg(rest, void *);
    void *child_id = va_arg(rest, void *);
    va_end(rest);
    pw_quiet_clones((unsigned)flags);
    return NEXT(clone)(start, stack, flags, argument, parent_id, storage, child_id);
}

// --- garbage collections -----------------------------------------------------

FAMILY_API int FAMILY(getrusage)(__rusage_who_t who, struct rusage *usage) {
    if (who == RUSAGE_SELF) {
        pw_collection_getrusage(&pw_process, SITE, small_bytes);
    }
    return NEXT(getrusage)(who, usage);
}

// --- mappings ----------------------------------------------------------------

#include "entry/family_mappings.h"
