// SPDX-License-Identifier: MIT
//
// A library that has a thread from its start on, and joins it before each fork, as a BLAS does.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCKS 500

static pthread_t thread;
static atomic_bool stop;

static void *work(void *unused) {
    void *blocks[BLOCKS] = {0};
    while (!stop) {
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
            blocks[i] = malloc(100 + (size_t)i);
        }
        usleep(100);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return unused;
}

static void begin(void) {
    stop = false;
    pthread_create(&thread, NULL, work, NULL);
}

static void before_fork(void) {
    stop = true;
    pthread_join(thread, NULL);
}

__attribute__((constructor)) static void start(void) {
    pthread_atfork(before_fork, begin, NULL);
    begin();
}
