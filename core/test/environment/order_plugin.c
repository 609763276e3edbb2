// SPDX-License-Identifier: MIT
//
// A plugin whose malloc and free may be others than the program's. Its constructor and destructor
// allocate and free, as C++'s static objects do.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char *kept;

__attribute__((constructor)) static void begin(void) {
    kept = malloc(300000);
    kept[0] = 1;
    char *text = strdup("begun");
    free(text);
    const char *called = getenv("PLUGIN_CALLS"); // while the loader has its lock
    if (called) {
        ((void (*)(void))(uintptr_t)strtoull(called, NULL, 16))();
    }
}

__attribute__((destructor)) static void end(void) {
    free(kept);
}

void *plugin_allocate(size_t size) {
    return malloc(size);
}

char *plugin_copy(const char *text) {
    return strdup(text);
}

void plugin_release(void *block) {
    free(block);
}

int plugin_work(void) {
    char *small = strdup("small"), *large = malloc(500000), *more;
    memset(large, 1, 500000);
    small = realloc(small, 300000);
    more = realloc(large, 900000);
    int well = strcmp(small, "small") == 0 && more[499999] == 1;
    free(small);
    free(more);
    return well;
}

void *plugin_load(const char *name, int flags) {
    void *library = dlopen(name, flags);
    return library; // not a call at the end: dlopen's caller is this library
}
