// SPDX-License-Identifier: MIT
//
// A library that stands for one of R's: built once as libR.so and twice as that of a package, with
// its functions bound at the first call and at the start.
#include "environment/calls.h"

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

// One of the calls that change how a block is mapped, by the C library's function or by syscall().
long module_call(int which, int by, void *block, size_t size) {
    return make_call(&calls[which], by ? by_number : by_function, block, size);
}

int module_call_named(const char *name) {
    int which = 0;
    while (which < (int)CALLS && strcmp(calls[which].name, name) != 0) {
        which++;
    }
    return which < (int)CALLS ? which : -1;
}
