// SPDX-License-Identifier: MIT
//
// The library that modules.c loads. It has blocks of its own from its constructor to its
// destructor.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API   __attribute__((visibility("default")))
#define OWN   ((size_t)200 << 10)
#define LARGE ((size_t)400 << 10)

API void *module_make(size_t size);
API void *module_enlarge(void *block, size_t size);
API void module_release(void *block);
API void *module_start(void *unused);

static unsigned char *own, *own_small;
static pthread_key_t key;

__attribute__((constructor)) static void begin(void) {
    own = malloc(OWN);
    own_small = malloc(33);
    if (!own || !own_small || pthread_key_create(&key, free) != 0) {
        abort();
    }
    memset(own, 9, OWN);
    own_small[32] = 9;
}

__attribute__((destructor)) static void end(void) {
    if (own[0] != 9 || own[OWN - 1] != 9 || own_small[32] != 9) {
        abort();
    }
    free(own);
    free(own_small);
    pthread_key_delete(key);
}

void *module_make(size_t size) {
    return calloc(1, size);
}

void *module_enlarge(void *block, size_t size) {
    return realloc(block, size);
}

void module_release(void *block) {
    free(block);
}

// As the program's fill(block, size, 1).
void *module_start(void *unused) {
    (void)unused;
    void *block = malloc(LARGE);
    for (size_t i = 0; block && i < LARGE; i += sizeof(uint64_t)) {
        uint64_t word = (i + 1) * 0x9e3779b97f4a7c15 + 2 * 0xbf58476d1ce4e5b9;
        memcpy((char *)block + i, &word, sizeof word);
    }
    pthread_setspecific(key, malloc(700));
    return block;
}
