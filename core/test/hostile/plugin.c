// SPDX-License-Identifier: MIT
//
// A library that the hostile program loads: it allocates before anything of it is called, as static
// objects of C++ do.
#include <stdlib.h>
#include <string.h>

#define OWN 300000

static unsigned char *own;

unsigned char *plugin_make(size_t size);

__attribute__((constructor)) static void begin(void) {
    own = malloc(OWN);
    if (own) {
        memset(own, 3, OWN);
    }
}

__attribute__((destructor)) static void end(void) {
    if (own && (own[0] != 3 || own[OWN - 1] != 3)) {
        abort();
    }
    free(own);
}

// A copy of a block of the library's own.
__attribute__((visibility("default"))) unsigned char *plugin_make(size_t size) {
    unsigned char *first = malloc(size), *second = malloc(size);
    if (!first || !second) {
        return NULL;
    }
    for (size_t i = 0; i < size; i++) {
        first[i] = (unsigned char)(i * 5 + 1);
    }
    memcpy(second, first, size);
    memset(first, 0, size);
    free(first);
    return second;
}
