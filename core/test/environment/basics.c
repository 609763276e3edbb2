// SPDX-License-Identifier: MIT
//
// The malloc family as the C library documents it: the same checks must pass plain and preloaded.
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void __libc_free(void *block);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_malloc(size_t size);

static const size_t sizes[] = {0,       1,       24,      100,     4096,    8191,   8192,
                               8193,    12288,   65536,   100000,  131071,  131072, 131073,
                               1 << 20, 3000000, 4 << 20, 9000001, 33 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

static void touch(unsigned char *block, size_t size, int value) {
    for (size_t at = 0; at < size; at += 511) {
        block[at] = (unsigned char)(value + (int)(at % 200));
    }
    if (size) {
        block[size - 1] = (unsigned char)value;
    }
}

static void check_touched(const unsigned char *block, size_t size, size_t was, int value) {
    for (size_t at = 0; at < size && at + 1 < was; at += 511) {
        CHECK(block[at] == (unsigned char)(value + (int)(at % 200)));
    }
}

static int is_zero(const unsigned char *block, size_t size) {
    return size == 0 || (block[0] == 0 && memcmp(block, block + 1, size - 1) == 0);
}

static void check_malloc(void) {
    unsigned char *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % 16 == 0);
        CHECK(malloc_usable_size(blocks[i]) >= sizes[i]);
        touch(blocks[i], sizes[i], (int)i);
        size_t usable = malloc_usable_size(blocks[i]);
        memset(blocks[i] + sizes[i], 0xee, usable - sizes[i]); // all of it may be used
    }
    for (size_t i = 0; i < SIZES; i++) {
        check_touched(blocks[i], sizes[i], sizes[i], (int)i);
        free(blocks[i]);
    }
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    printf("malloc\n");
}

// Memory that was used before must read zero.
static void check_calloc(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            unsigned char *block = calloc(1, sizes[i]);
            CHECK(block != NULL && is_zero(block, sizes[i]));
            memset(block, 0xff, sizes[i]);
            free(block);
            block = calloc(sizes[i], 1);
            CHECK(block != NULL && is_zero(block, sizes[i]));
            memset(block, 0xff, sizes[i]);
            free(block);
        }
    }
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc((size_t)1 << 32, (size_t)1 << 32) == NULL && errno == ENOMEM);
    CHECK(calloc(0, 8) != NULL && calloc(SIZE_MAX, 0) != NULL);
    printf("calloc\n");
}

static void check_realloc(void) {
    for (size_t from = 1; from < SIZES; from++) {
        for (size_t to = 1; to < SIZES; to++) {
            unsigned char *block = malloc(sizes[from]);
            touch(block, sizes[from], 7);
            block = realloc(block, sizes[to]);
            CHECK(block != NULL && malloc_usable_size(block) >= sizes[to]);
            size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            check_touched(block, kept, sizes[from], 7);
            touch(block, sizes[to], 9);
            block = realloc(block, sizes[from]);
            CHECK(block != NULL);
            check_touched(block, kept, sizes[to], 9);
            free(block);
        }
    }
    unsigned char *block = realloc(NULL, 300000);
    CHECK(block != NULL);
    touch(block, 300000, 3);
    errno = 0;
    CHECK(realloc(block, PTRDIFF_MAX) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(block, SIZE_MAX / 4, 8) == NULL && errno == ENOMEM);
    check_touched(block, 300000, 300000, 3); // untouched by the failure
    block = reallocarray(block, 1000, 1000);
    CHECK(block != NULL);
    check_touched(block, 300000, 300000, 3);
    CHECK(realloc(block, 0) == NULL); // frees, as the C library does
    // Growing step by step, as R and many buffers do.
    block = NULL;
    size_t size = 100;
    while (size < 20 << 20) {
        block = realloc(block, size);
        CHECK(block != NULL);
        CHECK(size == 100 || block[size * 2 / 3 - 1] == 0x5a);
        memset(block, 0x5a, size);
        size += size / 2;
    }
    free(block);
    printf("realloc\n");
}

static void check_aligned(void) {
    for (size_t alignment = 8; alignment <= 1 << 22; alignment *= 2) {
        for (size_t i = 0; i < SIZES; i++) {
            void *block = NULL;
            errno = 77;
            CHECK(posix_memalign(&block, alignment, sizes[i]) == 0 && errno == 77);
            CHECK(block != NULL && (uintptr_t)block % alignment == 0);
            CHECK(malloc_usable_size(block) >= sizes[i]);
            touch(block, sizes[i], 1);
            block = realloc(block, sizes[i] + 1000000);
            check_touched(block, sizes[i], sizes[i], 1);
            free(block);
            block = memalign(alignment, sizes[i]);
            CHECK(block != NULL && (uintptr_t)block % alignment == 0);
            touch(block, sizes[i], 2);
            free(block);
            block = aligned_alloc(alignment, (sizes[i] + alignment - 1) & ~(alignment - 1));
            CHECK(block != NULL && (uintptr_t)block % alignment == 0);
            free(block);
        }
    }
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char *block = valloc(sizes[i]);
        CHECK(block != NULL && (uintptr_t)block % PAGE == 0);
        touch(block, sizes[i], 2);
        free(block);
        block = pvalloc(sizes[i]);
        CHECK(block != NULL && (uintptr_t)block % PAGE == 0);
        CHECK(malloc_usable_size(block) >= ((sizes[i] + PAGE - 1) & ~(PAGE - 1)));
        free(block);
    }
    void *block = NULL;
    CHECK(posix_memalign(&block, 3, 100) == EINVAL);
    CHECK(posix_memalign(&block, 24, 1 << 20) == EINVAL);
    CHECK(posix_memalign(&block, 0, 1 << 20) == EINVAL);
    CHECK(posix_memalign(&block, 64, SIZE_MAX - 100) == ENOMEM && block == NULL);
    printf("aligned\n");
}

static void check_huge_sizes(void) {
    static const size_t huge[] = {SIZE_MAX,
                                  SIZE_MAX - 4095,
                                  (size_t)PTRDIFF_MAX + 1,
                                  PTRDIFF_MAX,
                                  (size_t)PTRDIFF_MAX - 4096,
                                  SIZE_MAX / 2,
                                  (size_t)1 << 62,
                                  (size_t)1 << 50};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        errno = 0;
        CHECK(malloc(huge[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(1, huge[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(memalign(4096, huge[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(memalign((size_t)1 << 40, huge[i]) == NULL);
        errno = 0;
        CHECK(valloc(huge[i]) == NULL && pvalloc(huge[i]) == NULL);
        errno = 0;
        CHECK(realloc(NULL, huge[i]) == NULL && errno == ENOMEM);
    }
    printf("huge sizes\n");
}

static void check_errno_is_kept(void) {
    unsigned char *one = malloc(1 << 20), *other = malloc(1 << 20);
    errno = 4242;
    memset(one, 1, 1 << 20);
    memcpy(other, one, 1 << 20);
    other[7] = 3;
    memmove(one, other, 1 << 20);
    memset(one, 0, 1 << 20);
    CHECK(errno == 4242);
    free(one);
    free(other);
    CHECK(errno == 4242);
    printf("errno\n");
}

// A free or realloc that goes past us, as from a library that was bound to the C library's.
static void check_bypassing(void) {
    for (size_t i = 0; i < SIZES; i++) {
        void *block = malloc(sizes[i]);
        touch(block, sizes[i], 4);
        __libc_free(block);
        block = malloc(sizes[i]);
        touch(block, sizes[i], 5);
        block = __libc_realloc(block, sizes[i] + 2000000);
        CHECK(block != NULL);
        check_touched(block, sizes[i], sizes[i], 5);
        free(block);
        block = __libc_malloc(sizes[i]);
        touch(block, sizes[i], 6);
        block = realloc(block, sizes[i] + 2000000);
        CHECK(block != NULL);
        check_touched(block, sizes[i], sizes[i], 6);
        free(block);
    }
    void *copies[20];
    unsigned char *shared = malloc(2 << 20);
    touch(shared, 2 << 20, 8);
    for (int i = 0; i < 20; i++) {
        copies[i] = malloc(2 << 20);
        memcpy(copies[i], shared, 2 << 20);
    }
    for (int i = 0; i < 20; i += 2) {
        __libc_free(copies[i]);
    }
    for (int i = 1; i < 20; i += 2) {
        check_touched(copies[i], 2 << 20, 2 << 20, 8);
        free(copies[i]);
    }
    for (int i = 0; i < 20; i++) {
        unsigned char *block = calloc(1, 2 << 20);
        CHECK(is_zero(block, 2 << 20));
        memset(block, 1, 2 << 20);
        copies[i] = block;
    }
    for (int i = 0; i < 20; i++) {
        free(copies[i]);
    }
    printf("bypassing\n");
}

static int do_something_wrong(const char *what) {
    unsigned char *block = malloc(1 << 20), *other = malloc(1 << 20);
    memset(block, 1, 1 << 20);
    memcpy(other, block, 1 << 20);
    if (!strcmp(what, "double-free")) {
        free(block);
        free(block);
    } else if (!strcmp(what, "inside-free")) {
        free(block + 4096);
    } else if (!strcmp(what, "inside-realloc")) {
        other = realloc(block + 16, 2 << 20);
    } else if (!strcmp(what, "double-realloc")) {
        free(block);
        other = realloc(block, 3 << 20);
    }
    printf("went on\n");
    return 0;
}

int main(int count, char **arguments) {
    CHECK(dlerror() == NULL); // of what a library looked for before
    bool all_is_replaced = count > 1 && !strcmp(arguments[1], "replaced");
    if (count > 1 && !all_is_replaced) {
        return do_something_wrong(arguments[1]);
    }
    check_malloc();
    check_calloc();
    check_realloc();
    check_aligned();
    check_huge_sizes();
    check_errno_is_kept();
    if (!all_is_replaced) { // small blocks have no header that the C library would know
        check_bypassing();
    }
    return 0;
}
