// SPDX-License-Identifier: MIT
//
// What cannot be had is refused with ENOMEM or EINVAL, and leaves all as it was; and errno.
#include "contract.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TOO_LARGE ((size_t)PTRDIFF_MAX + 1)

// The compiler must not know the sizes, which it would refuse by itself.
static volatile size_t nothing;

#define REFUSED(expression)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK(!(expression));                                                                      \
        CHECK(errno == ENOMEM);                                                                    \
    } while (0)

// --- too large -----------------------------------------------------------------------

static void refuse_everywhere(size_t size) {
    void *posix = &posix;
    REFUSED(malloc(size));
    REFUSED(calloc(1, size));
    REFUSED(calloc(size, 1));
    REFUSED(realloc(NULL, size));
    REFUSED(reallocarray(NULL, size, 1));
    REFUSED(valloc(size));
    REFUSED(pvalloc(size));
    for (size_t alignment = 8; alignment <= 64 * MEGABYTE; alignment *= 8) {
        REFUSED(memalign(alignment, size));
        REFUSED(aligned_alloc(alignment, size));
        CHECK(posix_memalign(&posix, alignment, size) == ENOMEM);
        CHECK(posix == &posix);
    }
}

static void too_large(void) {
    for (size_t less = 0; less < 4 * PAGE; less += less < 40 ? 1 : 509) {
        refuse_everywhere(SIZE_MAX - less + nothing);
        refuse_everywhere(TOO_LARGE + less + nothing);
    }
    // Just below what an object may have: there is no address space for it either.
    for (size_t less = 0; less < 4 * PAGE; less += less < 40 ? 1 : 509) {
        refuse_everywhere(PTRDIFF_MAX - less + nothing);
    }
    for (size_t size = (size_t)1 << 48; size < TOO_LARGE; size *= 2) {
        refuse_everywhere(size + nothing);
    }
}

static void products_that_overflow(void) {
    void *block = got(malloc(MEGABYTE), MEGABYTE);
    fill(block, MEGABYTE, 3);
    for (unsigned shift = 1; shift < 64; shift++) {
        size_t left = ((size_t)1 << shift) + nothing, right = (SIZE_MAX >> shift) + 1 + nothing;
        REFUSED(calloc(left, right));
        REFUSED(calloc(right, left));
        REFUSED(calloc(left, right + 1));
        REFUSED(reallocarray(NULL, left, right));
        REFUSED(reallocarray(block, left, right));
        REFUSED(reallocarray(block, right, left + 1));
        CHECK(holds(block, MEGABYTE, 3));
    }
    REFUSED(calloc(SIZE_MAX - nothing, SIZE_MAX - nothing));
    REFUSED(calloc(TOO_LARGE + nothing, 2));
    REFUSED(calloc(PTRDIFF_MAX / 2 + 1 + nothing, 2));
    free(block);
}

static void refused_realloc_keeps(void) {
    for (size_t i = 1; i < edge_count; i++) {
        size_t size = edges[i];
        void *block = got(malloc(size), size);
        fill(block, size, i);
        for (size_t less = 0; less < 3 * PAGE; less += 777) {
            REFUSED(realloc(block, SIZE_MAX - less - nothing));
            REFUSED(realloc(block, TOO_LARGE + less + nothing));
            REFUSED(realloc(block, PTRDIFF_MAX - less - nothing));
            REFUSED(reallocarray(block, SIZE_MAX - less - nothing, 1));
        }
        CHECK(holds(block, size, i));
        CHECK(malloc_usable_size(block) >= size);
        free(block);
    }
}

static void huge_alignments(void) {
    void *posix = &posix;
    for (size_t alignment = (size_t)1 << 48; alignment; alignment *= 2) {
        REFUSED(memalign(alignment + nothing, 8));
        REFUSED(memalign(alignment + nothing, MEGABYTE));
        REFUSED(aligned_alloc(alignment + nothing, alignment + nothing));
        REFUSED(aligned_alloc(alignment + nothing, SIZE_MAX - nothing));
        CHECK(posix_memalign(&posix, alignment + nothing, 8) == ENOMEM);
        CHECK(posix_memalign(&posix, alignment + nothing, MEGABYTE) == ENOMEM);
        CHECK(posix == &posix);
    }
}

// --- wrong ---------------------------------------------------------------------------

static void wrong_alignments(void) {
    static const size_t wrong[] = {0, 1, 2, 3, 4, 5, 7, 12, 24, 40, 48, 100, 4095, 4104};
    void *posix = &posix;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (size_t k = 0; k < edge_count; k++) {
            CHECK(posix_memalign(&posix, wrong[i] + nothing, edges[k]) == EINVAL);
        }
    }
    CHECK(posix == &posix);
    errno = 0;
    CHECK(!memalign(SIZE_MAX - nothing, 8) && errno == EINVAL);
    errno = 0;
    CHECK(!memalign(TOO_LARGE + 1 + nothing, MEGABYTE) && errno == EINVAL);
}

// --- limits --------------------------------------------------------------------------

#define ROOM 400

struct pile {
    void *blocks[ROOM];
    unsigned count;
};

// Until it is refused. Returns whether it was.
static bool pile_up(struct pile *pile, size_t size) {
    for (pile->count = 0; pile->count < ROOM; pile->count++) {
        errno = 0;
        pile->blocks[pile->count] = malloc(size);
        if (!pile->blocks[pile->count]) {
            CHECK(errno == ENOMEM);
            return true;
        }
        fill(pile->blocks[pile->count], PAGE, pile->count);
    }
    return false;
}

static void take_down(struct pile *pile) {
    for (unsigned i = 0; i < pile->count; i++) {
        CHECK(holds(pile->blocks[i], PAGE, i));
        free(pile->blocks[i]);
    }
}

static void limit_address_space(size_t more) {
    static char line[100];
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    pages = strtoul(line, NULL, 10);
    struct rlimit limit = {pages * PAGE + more, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void try_under_limit(void *size) {
    static struct pile pile, again;
    void *first = malloc(*(size_t *)size);
    CHECK(first);
    fill(first, *(size_t *)size, 9);
    limit_address_space(64 * MEGABYTE);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(pile_up(&pile, *(size_t *)size));
        REFUSED(realloc(first, 512 * MEGABYTE));
        REFUSED(calloc(512, MEGABYTE));
        REFUSED(aligned_alloc(PAGE, 512 * MEGABYTE));
        CHECK(holds(first, *(size_t *)size, 9));
        take_down(&pile);
        pile_up(&again, *(size_t *)size); // what was freed can be had again, about as often
        CHECK(again.count + 4 >= pile.count * 3 / 4);
        take_down(&again);
    }
    first = realloc(first, 100);
    CHECK(first && holds(first, 100, 9));
    free(first);
}

static void under_a_limit(void) {
    for (size_t size = MEGABYTE; size <= 16 * MEGABYTE; size *= 4) {
        CHECK(in_child(try_under_limit, &size) == 0);
    }
}

static pthread_barrier_t all_started; // a thread's stack would be refused as well

static void *pile_in_thread(void *unused) {
    struct pile pile;
    pthread_barrier_wait(&all_started);
    for (unsigned i = 0; i < 10; i++) {
        pile_up(&pile, 3 * MEGABYTE);
        take_down(&pile);
    }
    return unused;
}

static void threads_under_limit(void *unused) {
    (void)unused;
    void *threads[4];
    limit_address_space(200 * MEGABYTE);
    CHECK(pthread_barrier_init(&all_started, NULL, 4) == 0);
    for (unsigned i = 0; i < 4; i++) {
        threads[i] = new_thread(pile_in_thread, NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        join(threads[i]);
    }
    void *block = malloc(MEGABYTE);
    CHECK(block);
    free(block);
}

static void threads_refused(void) {
    CHECK(in_child(threads_under_limit, NULL) == 0);
}

// --- errno ---------------------------------------------------------------------------

static void free_keeps_errno(void) {
    for (size_t i = 0; i < edge_count; i++) {
        void *blocks[3] = {got(malloc(edges[i]), edges[i]), got(calloc(1, edges[i]), edges[i]),
                           got(aligned_alloc(64, edges[i]), edges[i])};
        for (unsigned k = 0; k < 3; k++) {
            memset(blocks[k], 1, edges[i]);
            errno = EXDEV + (int)k;
            free(blocks[k]);
            CHECK(errno == EXDEV + (int)k);
        }
    }
    errno = EPIPE;
    free(NULL);
    CHECK(errno == EPIPE);
}

static void free_keeps_errno_often(void) {
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    struct random random = {5};
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = i % 100 ? random_below(&random, 3000) : random_below(&random, MEGABYTE);
        blocks[i] = got(malloc(size), size);
        memset(blocks[i], 2, size);
    }
    errno = EDOM;
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[(i * 7) % BLOCKS]);
        CHECK(errno == EDOM);
    }
}

// C17 7.5: errno is never set to zero by any function; and what succeeds has no reason to set it.
static void success_keeps_errno(void) {
    void *posix = NULL;
    for (size_t i = 0; i < edge_count; i++) {
        errno = ERANGE;
        void *block = malloc(edges[i]);
        CHECK(errno == ERANGE);
        block = realloc(block, edges[i] * 2 + 1);
        CHECK(errno == ERANGE);
        block = realloc(block, edges[i] / 2 + 1);
        CHECK(errno == ERANGE && malloc_usable_size(block) > 0 && errno == ERANGE);
        free(block);
        block = calloc(edges[i], 1);
        CHECK(errno == ERANGE);
        free(block);
        block = aligned_alloc(32, edges[i]);
        CHECK(errno == ERANGE);
        free(got(block, edges[i]));
        CHECK(posix_memalign(&posix, 4 * PAGE, edges[i]) == 0 && errno == ERANGE);
        free(posix);
    }
}

static void realloc_to_nothing_keeps_errno(void) {
    for (size_t i = 0; i < edge_count; i++) {
        void *block = got(malloc(edges[i]), edges[i]);
        errno = EDOM;
        CHECK(!realloc(block, nothing));
        CHECK(errno == EDOM);
    }
}

const struct promise refusal_promises[] = {
    {"too-large", "no function gives more than PTRDIFF_MAX bytes, or than there are; ENOMEM",
     too_large, UNSERVED},
    {"products-that-overflow", "calloc and reallocarray refuse products that overflow",
     products_that_overflow, 0},
    {"refused-realloc-keeps", "a realloc that is refused leaves the block", refused_realloc_keeps,
     0},
    {"huge-alignments", "alignments that no address space holds are refused", huge_alignments,
     UNSERVED},
    {"wrong-alignments", "posix_memalign takes powers of two times sizeof(void *) only",
     wrong_alignments, UNSERVED},
    {"under-a-limit", "RLIMIT_AS: refused with ENOMEM, and given again after free", under_a_limit,
     ALONE | UNSERVED},
    {"threads-refused", "the same in threads", threads_refused, ALONE | UNSERVED},
    {"free-keeps-errno", "free keeps errno (POSIX.1-2024)", free_keeps_errno, 0},
    {"free-keeps-errno-often", "it does however much it frees", free_keeps_errno_often, 0},
    {"success-keeps-errno", "a request that is served does not touch errno", success_keeps_errno,
     0},
    {"realloc-to-nothing", "realloc(block, 0) frees, returns NULL and keeps errno",
     realloc_to_nothing_keeps_errno, 0},
    {0},
};
