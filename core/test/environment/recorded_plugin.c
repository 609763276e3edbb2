// SPDX-License-Identifier: MIT
//
// Two libraries of the same shape, so that the second is loaded where the first one was.
#include <stdlib.h>

__attribute__((noinline)) void *plugin_block(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" ::: "memory");
    return block;
}

int plugin_number(void) {
    return PLUGIN;
}
