// SPDX-License-Identifier: MIT
#include "front/c_library.h"
#include "front/module.h"
#include "os/os.h"

#include <errno.h>

// --- the C library's ---------------------------------------------------------

static size_t usable_size(void *block) {
    return pw_os_c_usable_size(block);
}

static const struct pw_behind c_library = {
    .allocate = __libc_malloc,
    .allocate_zeroed = __libc_calloc,
    .resize = __libc_realloc,
    .allocate_aligned = __libc_memalign,
    .release = __libc_free,
    .usable_size = usable_size,
};

// --- until it is known -------------------------------------------------------

static void *first_allocate(size_t size) {
    pw_behind_decide();
    return pw_behind.allocate(size);
}

static void *first_allocate_zeroed(size_t count, size_t size) {
    pw_behind_decide();
    return pw_behind.allocate_zeroed(count, size);
}

static void *first_resize(void *block, size_t size) {
    pw_behind_decide();
    return pw_behind.resize(block, size);
}

static void *first_allocate_aligned(size_t alignment, size_t size) {
    pw_behind_decide();
    return pw_behind.allocate_aligned(alignment, size);
}

static void first_release(void *block) {
    pw_behind_decide();
    pw_behind.release(block);
}

static size_t first_usable_size(void *block) {
    pw_behind_decide();
    return pw_behind.usable_size(block);
}

struct pw_behind pw_behind = {
    .allocate = first_allocate,
    .allocate_zeroed = first_allocate_zeroed,
    .resize = first_resize,
    .allocate_aligned = first_allocate_aligned,
    .release = first_release,
    .usable_size = first_usable_size,
};

// --- finding out -------------------------------------------------------------

// What the library lacks it has from the C library, as without us.
#define TAKE(field, name)                                                                          \
    do {                                                                                           \
        void *function = pw_find_next(#name);                                                      \
        if (function) {                                                                            \
            behind->field = (__typeof__(behind->field))function;                                   \
        }                                                                                          \
    } while (0)

static int (*posix_aligned)(void **, size_t, size_t);

static void *allocate_posix_aligned(size_t alignment, size_t size) {
    void *block = NULL;
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    int error = posix_aligned(&block, least, size);
    if (error) {
        errno = error;
    }
    return error ? NULL : block;
}

static void find_other(struct pw_behind *behind) {
    const void *next = pw_find_next ? pw_find_next("malloc") : NULL;
    if (!next || pw_module_is_one(next, (const void *)(uintptr_t)__libc_malloc)) {
        return;
    }
    TAKE(allocate, malloc);
    TAKE(allocate_zeroed, calloc);
    TAKE(resize, realloc);
    TAKE(allocate_aligned, memalign);
    TAKE(release, free);
    TAKE(usable_size, malloc_usable_size);
    if (!pw_module_is_one((const void *)(uintptr_t)behind->allocate_aligned, next)) {
        void *function = pw_find_next("posix_memalign");
        if (function && pw_module_is_one(function, next)) {
            posix_aligned = (__typeof__(posix_aligned))function;
            behind->allocate_aligned = allocate_posix_aligned;
        }
    }
    behind->is_other = true;
}

void pw_behind_decide(void) {
    static __thread bool deciding __attribute__((tls_model("initial-exec")));
    if (pw_behind.allocate != first_allocate) {
        return;
    }
    struct pw_behind found = c_library;
    if (!deciding) { // dlsym may allocate: from the C library then
        deciding = true;
        find_other(&found);
        deciding = false;
    }
    if (pw_behind.allocate != first_allocate) {
        return; // it did, and so it stays
    }
    // Before the program has threads, or each thread finds the same. What is asked first comes
    // last.
    pw_behind.is_other = found.is_other;
    pw_behind.usable_size = found.usable_size;
    pw_behind.release = found.release;
    pw_behind.allocate_aligned = found.allocate_aligned;
    pw_behind.resize = found.resize;
    pw_behind.allocate_zeroed = found.allocate_zeroed;
    __atomic_store_n(&pw_behind.allocate, found.allocate, __ATOMIC_RELEASE);
}
