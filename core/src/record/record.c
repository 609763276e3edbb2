// SPDX-License-Identifier: MIT
//
// libpagewise-record.so: the malloc family, put before whatever allocator the program uses, to
// write down who allocates what and when it is freed. `pagewise trace record` preloads it and makes
// a trace of what it leaves. It needs no other library of ours.

#include "record/record.h"
#include "os/dlsym.h"
#include "record/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define API                 __attribute__((visibility("default")))
#define SITE                __builtin_return_address(0)
#define FRAME               __builtin_frame_address(0)
#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define OWN_THREAD          __thread __attribute__((tls_model("initial-exec")))
#define EARLY_BYTES         (256 << 10)
#define MOST_NESTED         64
#define SAME_STACK          ((uintptr_t)64 << 20)

// --- the allocator behind us -----------------------------------------------------

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    bool is_known;
    // What is allocated while the functions are being looked for; never freed.
    size_t early_used;
    _Alignas(16) char early[EARLY_BYTES];
} next;

// Where the outermost of our functions began that is at work in this thread; 0: none is.
static OWN_THREAD uintptr_t inside;
static OWN_THREAD uintptr_t nested_calls; // since it began

static bool is_early(const void *block) {
    return (uintptr_t)block - (uintptr_t)next.early < EARLY_BYTES;
}

// The size stands before the block, for realloc.
static void *allocate_early(size_t alignment, size_t size) {
    if (size > EARLY_BYTES / 2 || alignment > 4096) {
        return NULL;
    }
    size_t start = __atomic_fetch_add(&next.early_used, size + alignment + 32, __ATOMIC_RELAXED);
    if (start + size + alignment + 32 > EARLY_BYTES) {
        return NULL;
    }
    uintptr_t block = ((uintptr_t)next.early + start + 16 + alignment - 1) & ~(alignment - 1);
    memcpy((char *)block - sizeof size, &size, sizeof size);
    return (void *)block;
}

uintptr_t pw_record_pause(const void *frame) {
    uintptr_t before = inside;
    inside = inside ? inside : (uintptr_t)frame;
    return before;
}

void pw_record_resume(uintptr_t before) {
    inside = before;
    nested_calls = before ? nested_calls : 0;
}

static void find_next(void) {
    uintptr_t before = pw_record_pause(FRAME);
    next.calloc = (void *(*)(size_t, size_t))pw_os_find_next("calloc");
    next.realloc = (void *(*)(void *, size_t))pw_os_find_next("realloc");
    next.free = (void (*)(void *))pw_os_find_next("free");
    next.memalign = (void *(*)(size_t, size_t))pw_os_find_next("memalign");
    next.aligned_alloc = (void *(*)(size_t, size_t))pw_os_find_next("aligned_alloc");
    next.posix_memalign = (int (*)(void **, size_t, size_t))pw_os_find_next("posix_memalign");
    next.valloc = (void *(*)(size_t))pw_os_find_next("valloc");
    next.pvalloc = (void *(*)(size_t))pw_os_find_next("pvalloc");
    next.malloc = (void *(*)(size_t))pw_os_find_next("malloc");
    pw_log.behind = (uintptr_t)next.malloc;
    __atomic_store_n(&next.is_known, next.malloc != NULL, __ATOMIC_RELEASE);
    pw_record_resume(before);
}

// False while the functions are being looked for: dlsym itself may allocate.
static inline bool has_next(void) {
    static OWN_THREAD bool looking;
    if (LIKELY(next.is_known)) {
        return true;
    }
    if (looking) {
        return false;
    }
    looking = true;
    find_next();
    looking = false;
    return next.is_known;
}

__attribute__((constructor)) static void start_recorder(void) {
    has_next();
    uintptr_t before = inside;
    inside = (uintptr_t)FRAME;
    pw_log_start();
    pw_log_start_unwinder();
    inside = before;
}

__attribute__((destructor)) static void end_recorder(void) {
    pw_log_end();
}

// --- what counts ---------------------------------------------------------------

// Where it may not be asked, it is taken to be on one.
static bool is_on_signal_stack(void) {
    if (pw_log.is_frozen || pw_log.is_unaware) {
        return true;
    }
    int saved = errno;
    stack_t now = {0};
    bool is_on = sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK;
    errno = saved;
    return is_on;
}

// An allocator may be built of its own malloc and free, and so may ours be called from within: only
// what the program called counts. A signal's handler may have left one of our functions by a jump,
// which then seems to be at work for ever: but a call from within is further down the stack, unless
// a handler with a stack of its own makes it, and there are never many.
static inline bool is_nested(void) {
    if (LIKELY(inside == 0)) {
        return false;
    }
    uintptr_t here = (uintptr_t)FRAME;
    bool is_above = here >= inside && here - inside < SAME_STACK && !is_on_signal_stack();
    if (is_above || ++nested_calls > MOST_NESTED) {
        nested_calls = 0;
        return false;
    }
    return true;
}

#define ENTER() (inside = (uintptr_t)FRAME)
#define LEAVE() (inside = nested_calls = 0)

API void *malloc(size_t size) {
    if (UNLIKELY(!has_next())) {
        return allocate_early(16, size);
    }
    if (is_nested()) {
        return next.malloc(size);
    }
    ENTER();
    void *block = next.malloc(size);
    if (LIKELY(block != NULL)) {
        pw_log_allocation(block, size, 0, SITE, FRAME);
    }
    LEAVE();
    return block;
}

API void *calloc(size_t count, size_t size) {
    size_t total;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        errno = ENOMEM;
        return NULL;
    }
    if (UNLIKELY(!has_next())) {
        return allocate_early(16, total); // never used before, so zero
    }
    if (is_nested()) {
        return next.calloc(count, size);
    }
    ENTER();
    void *block = next.calloc(count, size);
    if (LIKELY(block != NULL)) {
        pw_log_allocation(block, total, 0, SITE, FRAME);
    }
    LEAVE();
    return block;
}

API void free(void *block) {
    if (UNLIKELY(!block || is_early(block) || !has_next())) {
        return;
    }
    if (is_nested()) {
        next.free(block);
        return;
    }
    ENTER();
    pw_log_free(block);
    next.free(block);
    LEAVE();
}

// C23's.
API void free_sized(void *block, size_t size) {
    (void)size;
    free(block);
}

API void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    free(block);
}

static void *move_early(void *block, size_t size) {
    size_t held;
    memcpy(&held, (char *)block - sizeof held, sizeof held);
    void *moved = malloc(size);
    if (moved) {
        memcpy(moved, block, held < size ? held : size);
    }
    return moved;
}

// A free and an allocation, also where the block stays where it is.
static void *reallocate(void *block, size_t size, const void *site, const void *frame) {
    if (UNLIKELY(!has_next())) {
        return block ? move_early(block, size) : allocate_early(16, size);
    }
    if (UNLIKELY(is_early(block))) {
        return move_early(block, size);
    }
    if (is_nested()) {
        return next.realloc(block, size);
    }
    ENTER();
    struct pw_log_resize resize = pw_log_resize_begins(block);
    void *moved = next.realloc(block, size);
    if (moved || size == 0) {
        pw_log_resized(&resize, moved, size, site, frame);
    } else {
        pw_log_resize_failed(&resize);
    }
    LEAVE();
    return moved;
}

API void *realloc(void *block, size_t size) {
    return reallocate(block, size, SITE, FRAME);
}

API void *reallocarray(void *block, size_t count, size_t size) {
    size_t total;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        errno = ENOMEM;
        return NULL;
    }
    return reallocate(block, total, SITE, FRAME);
}

// The logarithm to base 2, 0 where nothing special is asked for.
static unsigned power_of(size_t alignment) {
    return alignment ? (unsigned)__builtin_ctzll(alignment) & 63 : 0;
}

static void *count_aligned(void *block, size_t alignment, size_t size, bool nested,
                           const void *site, const void *frame) {
    if (!nested) {
        if (LIKELY(block != NULL)) {
            pw_log_allocation(block, size, power_of(alignment), site, frame);
        }
        LEAVE();
    }
    return block;
}

static bool enter_unless_nested(const void *frame) {
    bool nested = is_nested();
    if (!nested) {
        inside = (uintptr_t)frame;
    }
    return nested;
}

API void *memalign(size_t alignment, size_t size) {
    if (UNLIKELY(!has_next() || !next.memalign)) {
        return allocate_early(alignment, size);
    }
    bool nested = enter_unless_nested(FRAME);
    return count_aligned(next.memalign(alignment, size), alignment, size, nested, SITE, FRAME);
}

API void *aligned_alloc(size_t alignment, size_t size) {
    if (UNLIKELY(!has_next() || !next.aligned_alloc)) {
        return allocate_early(alignment, size);
    }
    bool nested = enter_unless_nested(FRAME);
    return count_aligned(next.aligned_alloc(alignment, size), alignment, size, nested, SITE, FRAME);
}

API int posix_memalign(void **block, size_t alignment, size_t size) {
    if (UNLIKELY(!has_next() || !next.posix_memalign)) {
        *block = allocate_early(alignment, size);
        return *block ? 0 : ENOMEM;
    }
    bool nested = enter_unless_nested(FRAME);
    int result = next.posix_memalign(block, alignment, size);
    count_aligned(result == 0 ? *block : NULL, alignment, size, nested, SITE, FRAME);
    return result;
}

API void *valloc(size_t size) {
    if (UNLIKELY(!has_next() || !next.valloc)) {
        return allocate_early(PW_PAGE, size);
    }
    bool nested = enter_unless_nested(FRAME);
    return count_aligned(next.valloc(size), PW_PAGE, size, nested, SITE, FRAME);
}

API void *pvalloc(size_t size) {
    if (UNLIKELY(!has_next() || !next.pvalloc)) {
        return allocate_early(PW_PAGE, size);
    }
    bool nested = enter_unless_nested(FRAME);
    return count_aligned(next.pvalloc(size), PW_PAGE, size, nested, SITE, FRAME);
}

// --- for the other entrances --------------------------------------------------------

void *pw_record_allocate(size_t alignment, size_t size, const void *site, const void *frame) {
    if (UNLIKELY(!has_next())) {
        return allocate_early(alignment ? alignment : 16, size);
    }
    bool nested = enter_unless_nested(frame);
    void *block = alignment ? next.memalign(alignment, size) : next.malloc(size);
    return count_aligned(block, alignment, size, nested, site, frame);
}

void pw_record_free(void *block) {
    free(block);
}

static const char *module_of(const void *function) {
    Dl_info info;
    return dladdr(function, &info) ? info.dli_fname : NULL;
}

bool pw_record_is_behind(const void *function) {
    const char *one = module_of(function);
    const char *other = has_next() ? module_of((const void *)(uintptr_t)next.malloc) : NULL;
    return one && other && strcmp(one, other) == 0;
}

bool pw_record_is_in(const void *function, const char *module) {
    const char *path = module_of(function);
    const char *name = path ? strrchr(path, '/') : NULL;
    return path && strncmp(name ? name + 1 : path, module, strlen(module)) == 0;
}
