// SPDX-License-Identifier: MIT
//
// Stands for an R that was built without a shared library (.../R/bin/exec/R): the executable itself
// is served, and so are packages that it loads. hooked_program PACKAGE, or hooked_program cancelled
#include <dlfcn.h>
#include <pagewise.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)

static int serves(void) {
    void *volatile block = malloc(MEGABYTE);
    int ours = pw_owns(block);
    free(block);
    return ours;
}

// The exit handlers of a program have the stack of a thread of its own.
static void need_stack(void) {
    volatile char deep[MEGABYTE];
    for (size_t i = 0; i < sizeof deep; i += 4096) {
        deep[i] = 1;
    }
    puts("end");
}

static void *cancel(void *first) {
    if (pthread_cancel(*(pthread_t *)first) != 0 || pthread_join(*(pthread_t *)first, NULL) != 0) {
        _exit(2);
    }
    return NULL;
}

// A thread of ours waits to give back what is freed here. When the first thread is cancelled, the
// program's last one is to end it, not ours.
static int end_by_cancel(void) {
    static pthread_t first;
    const char *reason = "";
    pthread_t other;
    if (!pw_switch_on("policy=auto,brief=0", &reason)) {
        printf("cannot be switched on: %s\n", reason);
        return 1;
    }
    void *volatile block = malloc(64 * MEGABYTE);
    if (!pw_owns(block) || atexit(need_stack) != 0) {
        return 1;
    }
    memset(block, 1, 64 * MEGABYTE);
    free(block);
    first = pthread_self();
    if (pthread_create(&other, NULL, cancel, &first) != 0) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

int main(int count, char **words) {
    const char *reason = "";
    // At a fixed address each of these is a stub of the executable's, under the function's name.
    void *volatile taken[] = {(void *)malloc, (void *)free, (void *)memcpy, (void *)dlopen};
    if (!taken[0]) {
        return 1;
    }
    if (count == 2 && strcmp(words[1], "cancelled") == 0) {
        return end_by_cancel();
    }
    if (count != 2 || serves() || !pw_switch_on("policy=auto", &reason)) {
        printf("cannot be switched on: %s\n", reason);
        return 1;
    }
    void *library = dlopen(words[1], RTLD_NOW);
    void *(*allocate)(size_t) =
        library ? (void *(*)(size_t))dlsym(library, "module_allocate") : NULL;
    if (!serves() || !allocate || !pw_owns(allocate(MEGABYTE))) {
        printf("the executable, or what it loads, is not served\n");
        return 1;
    }
    pw_switch_off();
    return serves();
}
