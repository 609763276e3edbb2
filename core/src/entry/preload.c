// SPDX-License-Identifier: MIT
//
// libpagewise-preload.so: the malloc family and the copy functions (family.h), put before the C
// library's.

#include "entry/switch.h"
#include "process/c_library.h"
#include "process/state.h"
#include "runtime/collection.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/resource.h>

#define DIRECT_THRESHOLD (8 << 10) // the papers': two pages
#define DIRECT_MAPPINGS  60000     // below vm.max_map_count

// --- start -------------------------------------------------------------------

static void *memcpy_slowly(void *to, const void *from, size_t size);
static void *memmove_slowly(void *to, const void *from, size_t size);
static void *memset_slowly(void *to, int value, size_t size);
static int pthread_create_slowly(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*start)(void *), void *argument);
static int getrusage_slowly(__rusage_who_t who, struct rusage *usage);
static int clone_slowly(int (*start)(void *), void *stack, int flags, void *argument, ...);

// The C library's functions. Each looks for itself at its first use: a call compares nothing.
static struct {
    void *(*memcpy)(void *, const void *, size_t);
    void *(*memmove)(void *, const void *, size_t);
    void *(*memset)(void *, int, size_t);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*getrusage)(__rusage_who_t, struct rusage *);
    int (*clone)(int (*)(void *), void *, int, void *, ...);
} next = {
    .memcpy = memcpy_slowly,
    .memmove = memmove_slowly,
    .memset = memset_slowly,
    .pthread_create = pthread_create_slowly,
    .getrusage = getrusage_slowly,
    .clone = clone_slowly,
};

// Looks for the C library's function of this name. False: it cannot be found yet.
#define FOUND(name) find_next(#name, (void **)&next.name)
#define NEXT(name)  next.name

static bool find_next(const char *name, void **function) {
    void *found = pw_find_next(name);
    if (found) {
        *function = found;
    }
    return found;
}

// Policies direct and ksm: the C library itself maps every block of two pages and more.
static void map_directly(void) {
    mallopt(M_MMAP_THRESHOLD, DIRECT_THRESHOLD);
    mallopt(M_MMAP_MAX, DIRECT_MAPPINGS);
}

static void find_mapping_calls(void);
static void find_exit_calls(void);

__attribute__((constructor)) static void start_preload(void) {
    find_mapping_calls();
    find_exit_calls();
    // Not first when it is called: a library's constructor may wait for that thread, and has the
    // loader's lock meanwhile.
    FOUND(pthread_create);
    if (pw_first_preloaded_is("libpagewise-general.so")) {
        return;
    }
    pw_gate.preloaded = true;
    pw_start(NULL);
    if (pw_gate.map_directly) {
        map_directly();
    }
    pw_serve_runtime(true);
}

// --- the C library's functions -----------------------------------------------

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

static void *memcpy_slowly(void *to, const void *from, size_t size) {
    return FOUND(memcpy) ? next.memcpy(to, from, size) : copy_bytes(to, from, size);
}

static void *memmove_slowly(void *to, const void *from, size_t size) {
    return FOUND(memmove) ? next.memmove(to, from, size) : copy_bytes(to, from, size);
}

static void *memset_slowly(void *to, int value, size_t size) {
    return FOUND(memset) ? next.memset(to, value, size) : fill_bytes(to, value, size);
}

static int pthread_create_slowly(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*start)(void *), void *argument) {
    return FOUND(pthread_create) ? next.pthread_create(thread, attributes, start, argument)
                                 : EAGAIN;
}

static int clone_slowly(int (*start)(void *), void *stack, int flags, void *argument, ...) {
    va_list rest;
    va_start(rest, argument);
    void *parent_id = va_arg(rest, void *);
    void *storage = va_arg(rest, void *);
    void *child_id = va_arg(rest, void *);
    va_end(rest);
    if (!FOUND(clone)) {
        errno = ENOSYS;
        return -1;
    }
    return next.clone(start, stack, flags, argument, parent_id, storage, child_id);
}

static int getrusage_slowly(__rusage_who_t who, struct rusage *usage) {
    if (!FOUND(getrusage)) {
        errno = ENOSYS;
        return -1;
    }
    return next.getrusage(who, usage);
}

#define FAMILY(name)    name
#define FAMILY_API      PW_API
#define FAMILY_SYMBOL   ".globl"
#define FIND_CALL(name) pw_find_next(name)

#include "entry/family.h"

// The C library's other name for it.
PW_API extern __typeof__(clone) __clone __THROW __attribute__((alias("clone")));

#include "entry/family_sandbox.h"
