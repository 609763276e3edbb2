// SPDX-License-Identifier: MIT
//
// The number of mappings, vm.max_map_count.
#include "program.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// --- few left -----------------------------------------------------------------

#define AREA_PAGES ((size_t)140000)

// Mappings until the kernel allows no more; then `spare` times two are given back.
static char *take_mappings(size_t spare) {
    char *area = mmap(NULL, AREA_PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    size_t page = 0;
    while (page < AREA_PAGES && mprotect(area + page * PAGE, PAGE, PROT_NONE) == 0) {
        page += 2;
    }
    CHECK(page < AREA_PAGES);
    for (size_t i = 0; i < spare; i++) {
        page -= 2;
        CHECK(mprotect(area + page * PAGE, PAGE, PROT_READ) == 0);
    }
    return area;
}

static void give_mappings_back(char *area) {
    CHECK(munmap(area, AREA_PAGES * PAGE) == 0);
}

static int case_mappings(char **arguments) {
    char *area = take_mappings(strtoul(arguments[0], NULL, 10));
    say_work("mappings are short");
    give_mappings_back(area);
    say_work("mappings are back");
    return 0;
}

static void *thread_work(void *unused) {
    say_work("thread");
    return unused;
}

static void *no_work(void *unused) {
    return unused;
}

// Copies that were made with ease, and then few mappings: in the process, a thread, a child.
static int case_mappings_later(char **arguments) {
    size_t size = 600 << 10;
    unsigned char *copies[40];
    for (int i = 0; i < 40; i++) {
        copies[i] = malloc(size);
        CHECK(copies[i] != NULL);
        if (i == 0) {
            fill(copies[0], size, 1);
        } else {
            memcpy(copies[i], copies[0], size);
        }
    }
    char *area = take_mappings(strtoul(arguments[0], NULL, 10));
    pid_t child = fork();
    if (child == 0) {
        say_work("child");
        _exit(0);
    }
    wait_well(child);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    say_work("mappings are short");
    for (int i = 0; i < 40; i++) {
        copies[i][(size_t)i * PAGE] ^= 1;
        printf("%016llx\n", (unsigned long long)sum(copies[i], size));
        free(copies[i]);
    }
    fflush(stdout);
    say_work("copies are gone");
    give_mappings_back(area);
    usleep(1300000); // mappings are asked for again once a second
    say_work("mappings are back");
    return 0;
}

// The bytes and blocks that malloc can still serve must not be fewer.
static int case_mappings_small(char **arguments) {
    char *area = take_mappings(strtoul(arguments[0], NULL, 10));
    say_work("mappings are short");
    static char *blocks[20000];
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        size_t size = i % 7 == 6 ? 100000 : 500;
        blocks[i] = i % 2 ? calloc(1, size) : malloc(size);
        CHECK(blocks[i] != NULL);
        blocks[i][size - 1] = 1;
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        blocks[i] = realloc(blocks[i], 1000);
        CHECK(blocks[i] != NULL);
        free(blocks[i]);
    }
    give_mappings_back(area);
    printf("small blocks\n");
    return 0;
}

// No mapping is left at all, but for those that the library keeps back: what needs one gets it.
// Each need is a run of its own, as the first one makes room for the others.
static int case_mappings_none(char **arguments) {
    const char *need = arguments[0];
    size_t size = 600 << 10;
    unsigned char *from = malloc(size), *to = malloc(size);
    fill(from, size, 1);
    memcpy(to, from, size);
    take_mappings(0);
    int protection = PROT_READ;
    while (mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        protection ^= PROT_READ; // neighbours stay apart
    }
    if (!dlsym(RTLD_DEFAULT, "pw_owns")) {
        printf("needed and had\n");
        return 0;
    }
    pthread_t thread;
    if (!strcmp(need, "c-library")) {
        CHECK(memalign(16 * PAGE, size) != NULL);
    } else if (!strcmp(need, "block")) {
        CHECK(malloc(64 * MEGABYTE) != NULL);
    } else if (!strcmp(need, "thread")) {
        CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0 && !pthread_join(thread, NULL));
    } else if (!strcmp(need, "free")) {
        free(to);
    } else {
        CHECK(!"known need");
    }
    printf("needed and had\n");
    return 0;
}

// A block that grows is moved, mapping by mapping, and the kernel may refuse a later one of them.
static int grow_with_few_left(int left) {
    size_t size = 9 * MEGABYTE + MEGABYTE / 2, larger = 2 * size + MEGABYTE;
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    fill(block, size, 7);
    uint64_t before = sum(block, size);
    char *area = take_mappings((size_t)left / 2);
    int protection = PROT_READ;
    if (left % 2) {
        mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    unsigned char *grown = realloc(block, larger);
    give_mappings_back(area);
    return sum(grown ? grown : block, size) == before ? 0 : 1;
}

static int case_mappings_grow(char **arguments) {
    (void)arguments;
    for (int left = 0; left < 16; left++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(grow_with_few_left(left));
        }
        wait_well(child);
        printf("%d mappings left: contents kept\n", left);
    }
    return 0;
}

// --- many needed --------------------------------------------------------------

// More copies of one block than mappings are allowed.
static int case_many_copies(char **arguments) {
    (void)arguments;
    size_t size = 40 << 10;
    int count = 24000;
    unsigned char *first = malloc(size), **copies = malloc((size_t)count * sizeof *copies);
    fill(first, size, 1);
    for (int i = 0; i < count; i++) {
        copies[i] = malloc(size);
        CHECK(copies[i] != NULL);
        memcpy(copies[i], first, size);
        copies[i][i % size] ^= 1;
    }
    for (int i = 0; i < count; i++) {
        copies[i][i % size] ^= 1;
        CHECK(i % 50 || memcmp(copies[i], first, size) == 0);
        free(copies[i]);
    }
    say_work("many copies");
    return 0;
}

// --- many blocks that grow ------------------------------------------------------

static size_t count_mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    size_t lines = 0;
    CHECK(file != NULL);
    for (int read = getc(file); read != EOF; read = getc(file)) {
        lines += read == '\n';
    }
    fclose(file);
    return lines;
}

// What the program wants mappings for itself is there.
static void want_mappings(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    for (int i = 0; i < 200; i++) {
        int protection = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
        CHECK(mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    }
    CHECK(malloc(64 * MEGABYTE) != NULL);
}

// Blocks of a first size that grow again and again, each by a quarter and at another time.
static int case_growing(char **arguments) {
    size_t count = strtoul(arguments[0], NULL, 10), first = strtoul(arguments[1], NULL, 10);
    size_t most = strtoul(arguments[2], NULL, 10), *sizes = calloc(count, sizeof *sizes);
    unsigned char **blocks = calloc(count, sizeof *blocks);
    uint32_t random = 1;
    CHECK(blocks && sizes);
    for (size_t step = 0; step < 5 * count; step++) {
        random = random * 1103515245u + 12345u;
        size_t i = step < count ? step : (random >> 8) % count;
        size_t size = sizes[i] ? sizes[i] + sizes[i] / 4 : first;
        blocks[i] = realloc(blocks[i], size);
        CHECK(blocks[i] != NULL);
        CHECK(sizes[i] == 0 || blocks[i][sizes[i] - 1] == (unsigned char)i);
        blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
        sizes[i] = size;
    }
    CHECK(count_mappings() < most);
    want_mappings();
    for (size_t i = 0; i < count; i++) {
        CHECK(blocks[i][0] == (unsigned char)i && blocks[i][sizes[i] - 1] == (unsigned char)i);
        free(blocks[i]);
    }
    say_work("grown");
    return 0;
}

const struct program_case mapping_cases[] = {
    {"growing", case_growing},
    {"mappings", case_mappings},
    {"mappings-later", case_mappings_later},
    {"mappings-small", case_mappings_small},
    {"mappings-none", case_mappings_none},
    {"mappings-grow", case_mappings_grow},
    {"many-copies", case_many_copies},
    {NULL, NULL},
};
