// SPDX-License-Identifier: MIT
//
// Before main and after it.
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL ((size_t)300)
#define LARGE (700 * KILOBYTE)

struct early {
    void *small, *large;
};

static struct early from_preinit, from_constructor, from_late_constructor;

static void begin(struct early *early) {
    early->small = malloc(SMALL);
    early->large = calloc(1, LARGE);
    CHECK(early->small && early->large && is_all(early->large, LARGE, 0));
    fill(early->small, SMALL, 1);
    fill(early->large, LARGE, 2);
}

static void end(struct early *early) {
    CHECK(holds(early->small, SMALL, 1) && holds(early->large, LARGE, 2));
    free(early->small);
    free(early->large);
    early->small = early->large = NULL;
}

static void begin_before_all(int count, char **words, char **variables) {
    (void)count;
    (void)words;
    (void)variables;
    begin(&from_preinit);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = begin_before_all;

__attribute__((constructor(101))) static void begin_early(void) {
    begin(&from_constructor);
}

__attribute__((constructor)) static void begin_late(void) {
    begin(&from_late_constructor);
}

static void resize_early(struct early *early) {
    CHECK(holds(early->small, SMALL, 1) && holds(early->large, LARGE, 2));
    CHECK(malloc_usable_size(early->large) >= LARGE);
    void *small = got(realloc(early->small, 50 * SMALL), 50 * SMALL);
    void *large = got(realloc(early->large, 3 * LARGE), 3 * LARGE);
    CHECK(holds(small, SMALL, 1) && holds(large, LARGE, 2));
    early->small = got(realloc(small, SMALL), SMALL);
    early->large = got(realloc(large, LARGE), LARGE);
}

static void from_before_main(void) {
    resize_early(&from_preinit);
    resize_early(&from_constructor);
    resize_early(&from_late_constructor);
}

// --- after main ----------------------------------------------------------------------

static bool ends_in_destructor;
static void *from_main[4];

__attribute__((destructor(101))) static void end_last(void) {
    if (from_preinit.small && ends_in_destructor) {
        end(&from_preinit);
        end(&from_constructor);
        end(&from_late_constructor);
        free(from_main[3]);
        free(malloc(SMALL));
        free(malloc(LARGE));
        kept();
    }
}

static void free_at_exit(void) {
    free(from_main[0]);
    from_main[1] = realloc(from_main[1], LARGE);
    CHECK(from_main[1]);
    fill(from_main[1], LARGE, 1);
}

static void free_at_exit_with(int status, void *block) {
    CHECK(status == 0);
    free(block);
    free(strdup("the end"));
}

static void after_main(void) {
    char *buffer = got(malloc(256 * KILOBYTE), 256 * KILOBYTE);
    for (unsigned i = 0; i < 4; i++) {
        from_main[i] = got(calloc(i + 1, LARGE), LARGE);
    }
    CHECK(atexit(free_at_exit) == 0);
    CHECK(on_exit(free_at_exit_with, from_main[2]) == 0);
    // A stream that is flushed and closed by exit, with a buffer of ours.
    FILE *stream = fopen("/dev/null", "w");
    CHECK(stream && setvbuf(stream, buffer, _IOFBF, 256 * KILOBYTE) == 0);
    CHECK(fputs("to be flushed at the end", stream) >= 0);
    ends_in_destructor = true;
    exit(0);
}

static void leave_quickly(void) {
    free(from_main[0]);
    from_main[0] = calloc(1, LARGE);
    CHECK(from_main[0]);
    kept();
}

static void quick_end(void) {
    from_main[0] = got(malloc(LARGE), LARGE);
    CHECK(at_quick_exit(leave_quickly) == 0);
    quick_exit(0);
}

// exit in one thread while others allocate.
static void *allocate_for_ever(void *unused) {
    for (size_t i = 0;; i++) {
        unsigned char *block = calloc(1, i * 997 % LARGE);
        free(block);
    }
    return unused;
}

static void *call_exit(void *unused) {
    ends_in_destructor = true;
    exit(0);
    return unused;
}

static void exit_beside_threads(void) {
    for (unsigned i = 0; i < 3; i++) {
        new_thread(allocate_for_ever, NULL);
    }
    usleep(20000);
    join(new_thread(call_exit, NULL));
}

const struct promise end_promises[] = {
    {"before-main", "blocks from before main live on, and are resized", from_before_main, 0},
    {"after-main", "atexit, on_exit, streams and destructors allocate and free", after_main, ENDS},
    {"quick-end", "so does at_quick_exit", quick_end, ENDS},
    {"exit-beside-threads", "a thread may end the process while others allocate",
     exit_beside_threads, ENDS},
    {0},
};
