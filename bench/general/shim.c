// SPDX-License-Identifier: MIT
//
// The C library's malloc before that of a library which the program is linked with: Debian's redis
// brings jemalloc.
#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size) {
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return __libc_realloc(block, size);
}

void free(void *block) {
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size) {
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    void *got = __libc_memalign(alignment, size);
    *block = got ? got : *block;
    return got ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *block) {
    static size_t (*next)(void *);
    if (!next) {
        void *library = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
        next = (size_t(*)(void *))(library ? dlsym(library, "malloc_usable_size") : NULL);
    }
    return next ? next(block) : 0;
}
