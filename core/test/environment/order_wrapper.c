// SPDX-License-Identifier: MIT
//
// A library that stands in front of the C library's malloc, and calls it by a handle of the C
// library: what that handle finds must not be somebody who calls this library. And in front of
// dlopen, which it looks for at each call.
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define EARLY ((size_t)64 << 10)

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
} c_library;

// For what the search itself allocates. Never freed.
static _Alignas(16) char early[EARLY];
static size_t early_used;
static bool searches;

static void *allocate_early(size_t size) {
    char *block = early + early_used;
    early_used += (size + 15) & ~(size_t)15;
    return early_used <= EARLY ? block : NULL;
}

static bool is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + EARLY;
}

// Once, by the constructor of whoever allocates first, before there are threads.
static bool is_found(void) {
    if (!c_library.free && !searches) {
        searches = true;
        void *library = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
        c_library.malloc = (void *(*)(size_t))dlsym(library, "malloc");
        c_library.calloc = (void *(*)(size_t, size_t))dlsym(library, "calloc");
        c_library.realloc = (void *(*)(void *, size_t))dlsym(library, "realloc");
        c_library.free = (void (*)(void *))dlsym(library, "free");
        searches = false;
    }
    return c_library.free != NULL;
}

void *malloc(size_t size) {
    return is_found() ? c_library.malloc(size) : allocate_early(size);
}

void *calloc(size_t count, size_t size) {
    return is_found() ? c_library.calloc(count, size) : allocate_early(count * size);
}

void *realloc(void *block, size_t size) {
    if (is_found() && !is_early(block)) {
        return c_library.realloc(block, size);
    }
    void *moved = malloc(size);
    size_t held = (size_t)(early + EARLY - (char *)block);
    return moved && block ? memcpy(moved, block, held < size ? held : size) : moved;
}

void free(void *block) {
    if (!is_early(block) && is_found()) {
        c_library.free(block);
    }
}

void *dlopen(const char *path, int flags) {
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(path, flags);
}
