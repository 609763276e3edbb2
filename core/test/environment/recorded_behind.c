// SPDX-License-Identifier: MIT
//
// An allocator to be preloaded behind the recorder: built of its own malloc and free, and left by a
// signal's handler for requests of 19000 bytes.

#include <signal.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);
extern size_t malloc_usable_size(void *block);

void *malloc(size_t size) {
    if (size == 19000) {
        raise(SIGUSR1);
    }
    return __libc_malloc(size);
}

// Runs before the recorder's own constructor.
__attribute__((constructor)) static void early(void);

void free(void *block) {
    __libc_free(block);
}

void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (block && moved) {
        size_t held = malloc_usable_size(block);
        memcpy(moved, block, held < size ? held : size);
        free(block);
    }
    return moved;
}

static void early(void) {
    void *(*volatile allocate)(size_t) = malloc; // the first malloc of the process: the recorder's
    free(allocate(22002));
}
