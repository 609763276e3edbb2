// SPDX-License-Identifier: MIT
//
// Behind pagewise.mode=malloc: how often PHP asks for memory, and for how much, in one line on
// stderr at the end.
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *__libc_realloc(void *block, size_t size);

static unsigned long mallocs, malloc_bytes, frees, reallocs;

void *malloc(size_t size) {
    mallocs++;
    malloc_bytes += size;
    return __libc_malloc(size);
}

void free(void *block) {
    frees += block != NULL;
    __libc_free(block);
}

void *realloc(void *block, size_t size) {
    reallocs++;
    return __libc_realloc(block, size);
}

__attribute__((destructor)) static void tell(void) {
    fprintf(stderr, "counted: %lu %lu %lu %lu\n", mallocs, malloc_bytes, frees, reallocs);
}
