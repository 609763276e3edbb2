// SPDX-License-Identifier: MIT
//
// Limits of the process: address space, descriptors, file size, locked memory.
#include "program.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
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

static void *no_work(void *argument) {
    return argument;
}

static bool has_thread(size_t stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    return pthread_create(&thread, &attributes, no_work, NULL) == 0 &&
           pthread_join(thread, NULL) == 0;
}

static bool has_block(size_t size) {
    char *block = malloc(size);
    if (block) {
        block[0] = block[size - 1] = 1;
    }
    free(block);
    return block != NULL;
}

#define SMALL_BLOCK ((size_t)60000)
#define RELEASED    ((size_t)96)

static bool has_small_blocks(size_t size) {
    static void *blocks[RELEASED * MEGABYTE / SMALL_BLOCK];
    size_t count = 0, most = size / SMALL_BLOCK;
    while (count < most && (blocks[count] = malloc(SMALL_BLOCK)) != NULL) {
        count++;
    }
    bool all = count == most;
    while (count > 0) {
        free(blocks[--count]);
    }
    return all;
}

// What was used once and released is there for other blocks, and for a thread's stack.
static int case_released(char **arguments) {
    static unsigned char *blocks[RELEASED];
    size_t wanted = RELEASED * MEGABYTE / 2; // the keeper has a stack, and the arena a step
    bool later = !strcmp(arguments[0], "later"), data = !strcmp(arguments[1], "data");
    size_t before = (status_kb(data ? "VmData" : "VmSize") + 24576) * 1024;
    for (int round = 0; round < 5; round++) {
        if (!later) {
            limit(data ? RLIMIT_DATA : RLIMIT_AS, before + RELEASED * MEGABYTE);
        }
        for (size_t i = 0; i < RELEASED; i++) {
            blocks[i] = malloc(MEGABYTE);
            CHECK(blocks[i]);
            memset(blocks[i], (int)i, MEGABYTE);
        }
        if (later) {
            limit(data ? RLIMIT_DATA : RLIMIT_AS, before + RELEASED * MEGABYTE);
        }
        for (size_t i = 0; i < RELEASED; i++) {
            free(blocks[i]);
        }
        CHECK(!strcmp(arguments[2], "thread")  ? has_thread(wanted)
              : !strcmp(arguments[2], "block") ? has_block(wanted)
                                               : has_small_blocks(wanted));
        CHECK(malloc(SIZE_MAX / 4) == NULL && errno == ENOMEM);
    }
    puts("5 rounds");
    return 0;
}

#define STEP (16 * MEGABYTE) // by which the arena grows

// What the size of a mapped block does not count of its mapping: from glibc 2.43 on its header.
static size_t uncounted_bytes(void) {
    int major = 0, minor = 0;
    CHECK(sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2);
    return major > 2 || minor >= 43 ? 16 : 0;
}

// A block that the C library has mapped where the arena grew around it later. Its form there is
// glibc's: its size with the mark of a mapping, 16 bytes before the block.
static int case_block_between(char **arguments) {
    (void)arguments;
    enum { BLOCKS = 64 };
    static unsigned char *blocks[BLOCKS];
    blocks[0] = malloc(MEGABYTE);
    uintptr_t next = ((uintptr_t)blocks[0] + STEP) & ~(uintptr_t)(STEP - 1);
    size_t size = 512 * 1024;
    unsigned char *mapping = mmap((void *)next, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // elsewhere without us
    CHECK(mapping != MAP_FAILED);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = i ? malloc(MEGABYTE) : blocks[0];
        CHECK(blocks[i]);
        memset(blocks[i], 1, MEGABYTE);
    }
    ((size_t *)mapping)[1] = (size - uncounted_bytes()) | 2;
    unsigned char *block = mapping + 16;
    size_t usable = malloc_usable_size(block);
    CHECK(usable <= size - 16 && usable >= size - 24); // the latter from glibc 2.43 on
    memset(block, 7, usable);
    for (size_t larger = size; larger <= 4 * size; larger *= 2) {
        block = realloc(block, larger);
        CHECK(block && block[0] == 7 && block[usable - 1] == 7);
        memset(block, 7, larger);
    }
    free(block);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == 1 && blocks[i][MEGABYTE - 1] == 1);
    }
    puts("went on");
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

// --- limits lowered while running -----------------------------------------------

#define LOWERED_BLOCKS 12

struct lowered {
    unsigned char *data;
    size_t size;
    unsigned char first; // it is filled with this value and those after it
};

static void fill_lowered(struct lowered *block, size_t from) {
    for (size_t i = from; i < block->size; i++) {
        block->data[i] = (unsigned char)(block->first + i / PAGE);
    }
}

static void check_lowered(const struct lowered *block) {
    for (size_t i = 0; i < block->size; i++) {
        CHECK(block->data[i] == (unsigned char)(block->first + i / PAGE));
    }
}

// A resize may be refused, and the block is as before then.
static void resize_lowered(struct lowered *block, size_t size) {
    unsigned char *resized = realloc(block->data, size);
    if (resized) {
        size_t held = block->size < size ? block->size : size;
        block->data = resized;
        block->size = size;
        fill_lowered(block, held);
    }
    check_lowered(block);
}

static void copy_lowered(struct lowered *to, const struct lowered *from) {
    unsigned char *data = malloc(from->size);
    if (data) {
        memcpy(data, from->data, from->size);
        free(to->data);
        *to = (struct lowered){data, from->size, from->first};
        check_lowered(to);
        data[from->size / 2] ^= 1;
        check_lowered(from);
        data[from->size / 2] ^= 1;
    }
}

static void use_lowered(struct lowered *blocks, unsigned step) {
    for (unsigned i = 0; i < LOWERED_BLOCKS; i++) {
        struct lowered *block = &blocks[i], *other = &blocks[(i * 7 + step) % LOWERED_BLOCKS];
        size_t more = (size_t)(i % 3 + 1) * 256 * 1024 + i * PAGE;
        if ((i + step) % 4 == 0) {
            resize_lowered(block, block->size + more);
        } else if ((i + step) % 4 == 1) {
            resize_lowered(block, block->size > more ? block->size - more : PAGE);
        } else if (block != other) {
            copy_lowered(block, other);
        }
        unsigned char *zeros = calloc(1, more);
        for (size_t at = 0; zeros && at < more; at++) {
            CHECK(zeros[at] == 0);
        }
        free(zeros);
    }
}

static const struct {
    const char *name;
    int resource;
    const char *now; // the limit is what this line of /proc/self/status says, less the argument
} lowered_limits[] = {
    {"data", RLIMIT_DATA, "VmData"}, {"space", RLIMIT_AS, "VmSize"},
    {"nofile", RLIMIT_NOFILE, NULL}, {"fsize", RLIMIT_FSIZE, NULL},
    {"nproc", RLIMIT_NPROC, NULL},   {"memlock", RLIMIT_MEMLOCK, NULL},
    {"stack", RLIMIT_STACK, NULL},
};

static struct rlimit lower(const char *name, size_t value) {
    for (size_t i = 0; i < sizeof lowered_limits / sizeof *lowered_limits; i++) {
        if (!strcmp(lowered_limits[i].name, name)) {
            struct rlimit before, after;
            CHECK(getrlimit(lowered_limits[i].resource, &before) == 0);
            const char *now = lowered_limits[i].now;
            after = before;
            after.rlim_cur = now ? status_kb(now) * 1024 - value : value;
            CHECK(setrlimit(lowered_limits[i].resource, &after) == 0);
            return before;
        }
    }
    CHECK(!"known limit");
    return (struct rlimit){0};
}

static void raise_again(const char *name, const struct rlimit *before) {
    for (size_t i = 0; i < sizeof lowered_limits / sizeof *lowered_limits; i++) {
        if (!strcmp(lowered_limits[i].name, name)) {
            CHECK(setrlimit(lowered_limits[i].resource, before) == 0);
        }
    }
}

// What is asked for may be refused under the limit; no byte is lost, and nothing ends or hangs.
static int case_lowered(char **arguments) {
    static struct lowered blocks[LOWERED_BLOCKS];
    alarm(100);
    for (unsigned i = 0; i < LOWERED_BLOCKS; i++) {
        blocks[i].size = 300000 + i * 40000;
        blocks[i].first = (unsigned char)i;
        blocks[i].data = malloc(blocks[i].size);
        CHECK(blocks[i].data);
        fill_lowered(&blocks[i], 0);
    }
    use_lowered(blocks, 2);
    free(malloc(MEGABYTE));
    unsigned char *spare = malloc(30 * MEGABYTE);
    fill(spare, 30 * MEGABYTE, 1);
    free(spare); // warm pages, and a thread that keeps them
    fflush(stdout);
    struct rlimit before = lower(arguments[0], strtoul(arguments[1], NULL, 10));
    for (unsigned step = 0; step < 5; step++) {
        use_lowered(blocks, step);
        pid_t child = step % 4 == 1 ? fork() : -1;
        if (child == 0) {
            use_lowered(blocks, step + 1);
            _exit(0);
        }
        if (child > 0) {
            wait_well(child);
        }
    }
    usleep(300000);
    use_lowered(blocks, 3);
    raise_again(arguments[0], &before);
    for (unsigned i = 0; i < LOWERED_BLOCKS; i++) {
        check_lowered(&blocks[i]);
        free(blocks[i].data);
    }
    say_work("raised again");
    return 0;
}

const struct program_case limit_cases[] = {
    {"lowered", case_lowered},
    {"work", case_work},
    {"address-space", case_address_space},
    {"promise", case_promise},
    {"shrink", case_shrink},
    {"released", case_released},
    {"block-between", case_block_between},
    {"descriptors", case_descriptors},
    {"file-size-later", case_file_size_later},
    {"lock-everything", case_lock_everything},
    {"lock-limit", case_lock_limit},
    {NULL, NULL},
};
