// SPDX-License-Identifier: MIT
//
// Where memory goes: to swap, to a core file, back to the system.
#include "program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// What is in swap stays there when zero pages are looked for.
static int case_swap(char **arguments) {
    (void)arguments;
    size_t size = 8 * MEGABYTE;
    unsigned char *blocks[10];
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(size);
        fill(blocks[i], size, (uint64_t)i);
        memset(blocks[i] + size / 2, 0, size / 4);
    }
    unsigned char *copy = malloc(size);
    memcpy(copy, blocks[0], size);
    size_t before = status_kb("VmSwap");
    size_t (*ended)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "pw_collection_ended");
    if (ended) {
        ended();
    }
    size_t after = status_kb("VmSwap");
    fprintf(stderr, "swap %zu %zu\n", before, after);
    uint64_t total = sum(copy, size);
    for (int i = 0; i < 10; i++) {
        total = (total ^ sum(blocks[i], size)) * 31;
        free(blocks[i]);
    }
    printf("swap: %016llx\n", (unsigned long long)total);
    say_work("swap");
    return 0;
}

// Every page of a vector that lies in a snapshot alone must be in the core file.
static int case_core(char **arguments) {
    (void)arguments;
    limit(RLIMIT_CORE, RLIM_INFINITY);
    size_t size = 2 * MEGABYTE;
    char *one = malloc(size), *other = malloc(size);
    for (size_t page = 0; page < size / PAGE; page++) {
        snprintf(one + page * PAGE + 64, 64, "core mark %zu of %s", page, "a shared vector");
    }
    memcpy(other, one, size);
    madvise(NULL, 0, 0);
    printf("about to abort\n");
    fflush(stdout);
    abort();
}

// Free a large block and do nothing more, until standard input ends.
static int case_idle(char **arguments) {
    (void)arguments;
    unsigned char *block = malloc(64 * MEGABYTE);
    CHECK(block != NULL);
    fill(block, 64 * MEGABYTE, 1);
    printf("%016llx\n", (unsigned long long)sum(block, 64 * MEGABYTE));
    fflush(stdout);
    free(block);
    char byte;
    return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}

const struct program_case memory_cases[] = {
    {"swap", case_swap},
    {"core", case_core},
    {"idle", case_idle},
    {NULL, NULL},
};
