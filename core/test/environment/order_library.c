// SPDX-License-Identifier: MIT
//
// A library that the program needs, and that is initialized before what is preloaded: it has a
// thread that allocates blocks of all sizes, and joins it before each fork.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 40

void cfree(void *counted);

static pthread_t thread;
static atomic_bool stop;
static bool runs;

static void *work(void *unused) {
    unsigned random = 1;
    char *blocks[BLOCKS] = {0};
    while (!stop) {
        random = random * 1103515245 + 12345;
        unsigned i = (random >> 16) % BLOCKS;
        size_t size = 16 + (random >> 8) % 400000;
        if (random % 5 == 0) {
            blocks[i] = realloc(blocks[i], size);
        } else {
            free(blocks[i]);
            blocks[i] = malloc(size);
        }
        memset(blocks[i], (int)i, size < 5000 ? size : 5000);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return unused;
}

static void begin(void) {
    stop = false;
    runs = pthread_create(&thread, NULL, work, NULL) == 0;
}

static void before_fork(void) {
    if (runs) {
        stop = true;
        pthread_join(thread, NULL);
        runs = false;
    }
    free(malloc(100));
    free(malloc(300000));
}

static void after_fork(void) {
    free(malloc(300000));
    begin();
}

// By a name that the C library had until 2017 (2.26): nobody else answers to it.
__attribute__((noinline)) void cfree(void *counted) {
    ++*(int *)counted;
}

__attribute__((constructor)) static void start(void) {
    int counted = 0;
    cfree(&counted);
    if (counted != 1) {
        abort();
    }
    pthread_atfork(before_fork, after_fork, after_fork);
    begin();
}

void order_library(void) {
}
