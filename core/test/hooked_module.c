// SPDX-License-Identifier: MIT
//
// A library that stands for one of R's: built once as libR.so and twice as that of a package, with
// its functions bound at the first call and at the start.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *module_allocate(size_t size) {
    return malloc(size);
}

void *module_allocate_zeroed(size_t size) {
    return calloc(1, size);
}

void *module_resize(void *block, size_t size) {
    return realloc(block, size);
}

void module_free(void *block) {
    free(block);
}

void *module_copy(void *to, const void *from, size_t size) {
    return memcpy(to, from, size);
}

void *module_load(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
