// SPDX-License-Identifier: MIT
//
// libpagewise-preload.so: the malloc family and the copy functions, put before the C library's.
//
// Small requests cost one comparison more than before. The rest of the work is done by the one copy
// of libpagewise.so in the process.

#include "front/block.h"
#include "front/c_library.h"
#include "front/collection.h"
#include "front/copy.h"
#include "front/foreign.h"
#include "front/module.h"
#include "front/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SITE                __builtin_return_address(0)
#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define DIRECT_THRESHOLD    (8 << 10)           // the papers': two pages
#define DIRECT_MAPPINGS     60000               // below vm.max_map_count
#define FOREIGN_STEP        ((size_t)256 << 10) // small bytes between two looks at the C library's heap

// --- start -------------------------------------------------------------------

static struct {
    size_t small_bytes; // allocated from the C library since the last look; a racy sum is enough
    void *(*copy)(void *, const void *, size_t);
    void *(*move)(void *, const void *, size_t);
    void *(*fill)(void *, int, size_t);
    int (*usage)(int, struct rusage *);
} preload;

// Policies direct and ksm: the C library itself maps every block of two pages and more.
static void map_directly(void) {
    mallopt(M_MMAP_THRESHOLD, DIRECT_THRESHOLD);
    mallopt(M_MMAP_MAX, DIRECT_MAPPINGS);
}

__attribute__((constructor)) static void start_preload(void) {
    pw_start(NULL);
    if (pw_gate.map_directly) {
        map_directly();
    }
    pw_collection_find_runtime();
}

// --- allocation --------------------------------------------------------------

static inline void count_small(size_t size) {
    preload.small_bytes += size;
    if (UNLIKELY(preload.small_bytes > FOREIGN_STEP)) {
        preload.small_bytes = 0;
        if (pw_is_on()) {
            pw_foreign_changed();
        }
    }
}

// Policy ksm: a block that the C library has mapped is offered to KSM.
static void *offer(void *block) {
    if (UNLIKELY(pw_gate.mergeable) && block && ((size_t *)block)[-1] & 2) {
        int saved = errno;
        uintptr_t start = (uintptr_t)block & ~(PW_PAGE - 1);
        madvise((void *)start, ((size_t *)block)[-1] & ~(size_t)7, MADV_MERGEABLE);
        errno = saved;
    }
    return block;
}

PW_API void *malloc(size_t size) {
    if (UNLIKELY(size >= pw_gate.threshold)) {
        void *block = pw_block_allocate(size, 1, false, SITE);
        if (block) {
            return block;
        }
    }
    count_small(size);
    return offer(pw_c_malloc(size));
}

PW_API void *calloc(size_t count, size_t size) {
    size_t total;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        errno = ENOMEM;
        return NULL;
    }
    if (UNLIKELY(total >= pw_gate.threshold)) {
        void *block = pw_block_allocate(total, 1, true, SITE);
        if (block) {
            return block;
        }
    }
    count_small(total);
    return offer(pw_c_calloc(count, size));
}

PW_API void free(void *block) {
    if (LIKELY(!pw_gate_contains(block)) || !pw_block_free(block)) {
        __libc_free(block);
    }
}

// A block of the C library that grows past the threshold becomes ours.
static void *take_over(void *block, size_t size, const void *site) {
    void *moved = pw_block_allocate(size, 1, false, site);
    if (moved) {
        size_t held = malloc_usable_size(block);
        memcpy(moved, block, held < size ? held : size);
        __libc_free(block);
    }
    return moved;
}

PW_API void *realloc(void *block, size_t size) {
    if (!block) {
        return malloc(size);
    }
    if (UNLIKELY(pw_gate_contains(block) && pw_owns(block))) {
        if (size == 0) {
            pw_block_free(block);
            return NULL;
        }
        return pw_block_resize(block, size, SITE);
    }
    if (UNLIKELY(pw_gate_contains(block))) {
        pw_block_reject_dead(block, "realloc");
    }
    if (UNLIKELY(size >= pw_gate.threshold)) {
        void *moved = take_over(block, size, SITE);
        if (moved) {
            return moved;
        }
    }
    return offer(pw_c_realloc(block, size));
}

PW_API void *reallocarray(void *block, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, total);
}

static void *allocate_aligned(size_t alignment, size_t size, const void *site) {
    if (UNLIKELY(size >= pw_gate.threshold && alignment <= PW_PAGE &&
                 (alignment & (alignment - 1)) == 0)) {
        void *block = pw_block_allocate(size, alignment, false, site);
        if (block) {
            return block;
        }
    }
    count_small(size);
    return offer(pw_c_memalign(alignment, size));
}

PW_API void *memalign(size_t alignment, size_t size) {
    return allocate_aligned(alignment, size, SITE);
}

PW_API void *aligned_alloc(size_t alignment, size_t size) {
    return allocate_aligned(alignment, size, SITE);
}

PW_API int posix_memalign(void **block, size_t alignment, size_t size) {
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

PW_API void *valloc(size_t size) {
    return allocate_aligned(PW_PAGE, size, SITE);
}

PW_API void *pvalloc(size_t size) {
    size_t rounded;
    if (__builtin_add_overflow(size, PW_PAGE - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate_aligned(PW_PAGE, rounded & ~(PW_PAGE - 1), SITE);
}

// The C library's own, by its header (malloc.c): the chunk's size, less what the header takes.
static size_t c_library_usable(const void *block) {
    static size_t (*next)(void *);
    if (!next) {
        next = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    }
    return next ? next((void *)(uintptr_t)block) : 0;
}

PW_API size_t malloc_usable_size(void *block) {
    if (!block) {
        return 0;
    }
    if (UNLIKELY(pw_gate_contains(block) && pw_owns(block))) {
        return pw_block_usable(block);
    }
    return c_library_usable(block);
}

// --- copies and fills --------------------------------------------------------

// Until the C library's function is known: other libraries' constructors run before ours, and so
// does the loader. The barrier keeps the compiler from turning the loops into calls of ourselves.
static void *copy_bytes(void *to, const void *from, size_t size) {
    char *target = to;
    const char *source = from;
    if (target <= source || target >= source + size) {
        for (size_t i = 0; i < size; i++) {
            target[i] = source[i];
            __asm__ volatile("" ::: "memory");
        }
    } else {
        while (size-- > 0) {
            target[size] = source[size];
            __asm__ volatile("" ::: "memory");
        }
    }
    return to;
}

static void *fill_bytes(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++) {
        ((char *)to)[i] = (char)value;
        __asm__ volatile("" ::: "memory");
    }
    return to;
}

static void *find_next(const char *name) {
    static __thread bool looking __attribute__((tls_model("initial-exec")));
    if (looking) {
        return NULL;
    }
    looking = true;
    void *found = dlsym(RTLD_NEXT, name);
    looking = false;
    return found;
}

static void *copy_slowly(void *to, const void *from, size_t size) {
    preload.copy = (void *(*)(void *, const void *, size_t))find_next("memcpy");
    return preload.copy ? preload.copy(to, from, size) : copy_bytes(to, from, size);
}

static void *move_slowly(void *to, const void *from, size_t size) {
    preload.move = (void *(*)(void *, const void *, size_t))find_next("memmove");
    return preload.move ? preload.move(to, from, size) : copy_bytes(to, from, size);
}

static void *fill_slowly(void *to, int value, size_t size) {
    preload.fill = (void *(*)(void *, int, size_t))find_next("memset");
    return preload.fill ? preload.fill(to, value, size) : fill_bytes(to, value, size);
}

PW_API void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    if (UNLIKELY(size >= pw_gate.copy_threshold) && pw_block_copy(to, from, size, SITE)) {
        return to;
    }
    return LIKELY(preload.copy) ? preload.copy(to, from, size) : copy_slowly(to, from, size);
}

PW_API void *memmove(void *to, const void *from, size_t size) {
    if (UNLIKELY(size >= pw_gate.copy_threshold) && pw_block_copy(to, from, size, SITE)) {
        return to;
    }
    return LIKELY(preload.move) ? preload.move(to, from, size) : move_slowly(to, from, size);
}

PW_API void *memset(void *to, int value, size_t size) {
    if (UNLIKELY(size >= pw_gate.copy_threshold) && value == 0 && pw_block_zero(to, size)) {
        return to;
    }
    return LIKELY(preload.fill) ? preload.fill(to, value, size) : fill_slowly(to, value, size);
}

extern void __chk_fail(void) __attribute__((noreturn));

PW_API void *__memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room) {
    if (size > room) {
        __chk_fail();
    }
    if (UNLIKELY(size >= pw_gate.copy_threshold) && pw_block_copy(to, from, size, SITE)) {
        return to;
    }
    return LIKELY(preload.copy) ? preload.copy(to, from, size) : copy_slowly(to, from, size);
}

PW_API void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
    if (size > room) {
        __chk_fail();
    }
    if (UNLIKELY(size >= pw_gate.copy_threshold) && pw_block_copy(to, from, size, SITE)) {
        return to;
    }
    return LIKELY(preload.move) ? preload.move(to, from, size) : move_slowly(to, from, size);
}

PW_API void *__memset_chk(void *to, int value, size_t size, size_t room) {
    if (size > room) {
        __chk_fail();
    }
    if (UNLIKELY(size >= pw_gate.copy_threshold) && value == 0 && pw_block_zero(to, size)) {
        return to;
    }
    return LIKELY(preload.fill) ? preload.fill(to, value, size) : fill_slowly(to, value, size);
}

// --- threads --------------------------------------------------------------------

struct quiet_start {
    void *(*start)(void *);
    void *argument;
};

static void quiet_thread_ended(void *unused) {
    (void)unused;
    pw_quiet_thread_ends();
}

static void *run_quiet_thread(void *argument) {
    struct quiet_start start = *(struct quiet_start *)argument;
    void *result = NULL;
    __libc_free(argument);
    pw_quiet_thread_began();
    pthread_cleanup_push(quiet_thread_ended, NULL);
    result = start.start(start.argument);
    pthread_cleanup_pop(1);
    return result;
}

// Threads of a BLAS are told apart from others, so that they do not stop zero reclaim.
PW_API int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                          void *(*start)(void *), void *restrict argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next) {
        next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
        if (!next) {
            return EAGAIN;
        }
    }
    struct quiet_start *quiet = pw_module_is_quiet(SITE) ? pw_c_malloc(sizeof *quiet) : NULL;
    if (quiet) {
        *quiet = (struct quiet_start){start, argument};
        start = run_quiet_thread;
        argument = quiet;
    }
    int result = next(thread, attributes, start, argument);
    if (result == EAGAIN && pw_block_relieve()) { // a stack is a mapping or two
        result = next(thread, attributes, start, argument);
    }
    if (result != 0) {
        __libc_free(quiet);
    }
    return result;
}

// --- garbage collections -----------------------------------------------------

PW_API int getrusage(__rusage_who_t who, struct rusage *usage) {
    if (!preload.usage) {
        preload.usage = (int (*)(int, struct rusage *))dlsym(RTLD_NEXT, "getrusage");
    }
    if (who == RUSAGE_SELF) {
        pw_collection_getrusage(SITE);
    }
    if (!preload.usage) {
        errno = ENOSYS;
        return -1;
    }
    return preload.usage(who, usage);
}
