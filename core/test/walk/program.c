// SPDX-License-Identifier: MIT
//
// The four acts of a block's life, as R does them: the program that walk follows.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SIZE ((size_t)8 << 20)
#define HALF (SIZE / 2)

// By these names R is known.
void *Rf_allocVector3(size_t size);
extern void (*R_PolledEvents)(void);
void (*R_PolledEvents)(void);

__attribute__((noinline)) void *Rf_allocVector3(size_t size) {
    void *block = malloc(size);
    if (!block) {
        block = malloc(size);
    }
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

static void collect(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage); // its start
    getrusage(RUSAGE_SELF, &usage); // its end
}

int main(void) {
    void (*begin)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "walk_begin");
    void (*end)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "walk_end");
    char *warm = Rf_allocVector3(4 * SIZE), *source = NULL, *copy = NULL, *zeros = NULL;
    if (!begin || !end || !warm) {
        return 1;
    }
    memset(warm, 1, 4 * SIZE);
    free(warm); // its pages are for the next block
    source = Rf_allocVector3(SIZE);
    memset(source, 1, SIZE);
    usleep(300000); // until our own thread is counted
    collect();
    begin();
    copy = Rf_allocVector3(SIZE);
    end("malloc");
    begin();
    memcpy(copy, source, SIZE);
    end("copy");
    copy[HALF] = 1;
    memset(source + SIZE / 4, 0, SIZE / 8);
    zeros = Rf_allocVector3(HALF);
    memset(zeros, 1, HALF);
    for (int i = 0; i < 9; i++) {
        collect();
    }
    memset(zeros, 0, HALF);
    usleep(600000); // until the next one trims the pool
    char *other = Rf_allocVector3(HALF);
    begin();
    collect();
    end("collection");
    begin();
    free(copy);
    end("free");
    return other == NULL;
}
