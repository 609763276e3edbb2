// SPDX-License-Identifier: MIT
//
// Limits of the process: address space, descriptors, file size, locked memory.
#include "program.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static int case_work(char **arguments) {
    (void)arguments;
    say_work("work");
    return 0;
}

// Room for the work, but not for much more; then none at all.
static int case_address_space(char **arguments) {
    size_t room = strtoul(arguments[0], NULL, 10) * MEGABYTE;
    limit(RLIMIT_AS, status_kb("VmSize") * 1024 + room);
    say_work("limited");
    void *blocks[4096];
    int count = 0;
    while (count < 4096 && (blocks[count] = malloc(MEGABYTE)) != NULL) {
        memset(blocks[count], count, MEGABYTE);
        count++;
    }
    CHECK(count < 4096 && errno == ENOMEM && count > 4);
    for (int i = 0; i < count; i++) {
        CHECK(((unsigned char *)blocks[i])[MEGABYTE / 2] == (unsigned char)i);
    }
    while (count > 0) {
        free(blocks[--count]);
    }
    CHECK(calloc(1, SIZE_MAX / 4) == NULL && errno == ENOMEM);
    say_work("again");
    return 0;
}

// More than all memory and swap together: whether malloc refuses it is the kernel's affair, and the
// same with and without us. Nothing of it is written.
static int case_promise(char **arguments) {
    (void)arguments;
    struct sysinfo machine;
    CHECK(sysinfo(&machine) == 0);
    size_t all = (machine.totalram + machine.totalswap) * machine.mem_unit;
    size_t more = all + 64 * MEGABYTE;
    void *block = malloc(more), *zeroed = calloc(more / 8, 8), *aligned = NULL;
    int status = posix_memalign(&aligned, 2 * MEGABYTE, more);
    printf("%d %d %d\n", block != NULL, zeroed != NULL, status);
    free(block);
    free(zeroed);
    free(aligned);
    unsigned char *kept = malloc(20 * MEGABYTE);
    fill(kept, 20 * MEGABYTE, 3);
    unsigned char *grown = realloc(kept, more);
    printf("%d\n", grown != NULL);
    printf("%d\n", (grown ? grown : kept)[20 * MEGABYTE - 1]);
    free(grown ? grown : kept);
    say_work("promise");
    return 0;
}

// A block can be made smaller where there is no room for another one.
static int case_shrink(char **arguments) {
    (void)arguments;
    unsigned char *large = malloc(100 * MEGABYTE);
    CHECK(large);
    fill(large, 100 * MEGABYTE, 5);
    limit(RLIMIT_AS, status_kb("VmSize") * 1024);
    static const size_t sizes[] = {45 * MEGABYTE, 20 * MEGABYTE, 3 * MEGABYTE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *smaller = realloc(large, sizes[i]);
        CHECK(smaller);
        large = smaller;
        printf("%d %d\n", large[1], large[sizes[i] - 1]);
    }
    free(large);
    return 0;
}

static int case_descriptors(char **arguments) {
    (void)arguments;
    int lowest = dup(0);
    CHECK(lowest >= 0);
    close(lowest);
    limit(RLIMIT_NOFILE, (rlim_t)lowest);
    CHECK(dup(0) < 0 && errno == EMFILE);
    say_work("no descriptor left");
    return 0;
}

static int case_file_size_later(char **arguments) {
    (void)arguments;
    say_work("unlimited");
    limit(RLIMIT_FSIZE, 1000);
    say_work("limited");
    limit(RLIMIT_FSIZE, 0);
    say_work("nothing");
    return 0;
}

static int case_lock_everything(char **arguments) {
    (void)arguments;
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    say_work("locked");
    return 0;
}

static int case_lock_limit(char **arguments) {
    (void)arguments;
    limit(RLIMIT_MEMLOCK, 65536);
    say_work("little may be locked");
    return 0;
}

const struct program_case limit_cases[] = {
    {"work", case_work},
    {"address-space", case_address_space},
    {"promise", case_promise},
    {"shrink", case_shrink},
    {"descriptors", case_descriptors},
    {"file-size-later", case_file_size_later},
    {"lock-everything", case_lock_everything},
    {"lock-limit", case_lock_limit},
    {NULL, NULL},
};
