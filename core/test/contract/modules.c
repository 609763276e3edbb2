// SPDX-License-Identifier: MIT
//
// Blocks outlive the library whose code asked for them.
#include "contract.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (400 * KILOBYTE)

struct module {
    void *handle;
    void *(*make)(size_t size);
    void *(*enlarge)(void *block, size_t size);
    void (*release)(void *block);
    void *(*start)(void *unused);
};

static struct module load(int flags) {
    CHECK(module_path);
    struct module module = {.handle = dlopen(module_path, RTLD_NOW | flags)};
    CHECK(module.handle);
    module.make = (void *(*)(size_t))dlsym(module.handle, "module_make");
    module.enlarge = (void *(*)(void *, size_t))dlsym(module.handle, "module_enlarge");
    module.release = (void (*)(void *))dlsym(module.handle, "module_release");
    module.start = (void *(*)(void *))dlsym(module.handle, "module_start");
    CHECK(module.make && module.enlarge && module.release && module.start);
    return module;
}

static void exchange(int flags) {
    for (unsigned i = 0; i < 5; i++) {
        for (size_t size = 40; size <= 4 * MEGABYTE; size *= 10) {
            struct module module = load(flags);
            void *theirs = module.make(size), *ours = got(malloc(size), size);
            CHECK(theirs && is_all(theirs, size, 0));
            fill(theirs, size, 1);
            fill(ours, size, 2);
            ours = module.enlarge(ours, size * 2);
            CHECK(ours && holds(ours, size, 2));
            theirs = got(realloc(theirs, size * 3), size * 3);
            CHECK(holds(theirs, size, 1) && malloc_usable_size(theirs) >= size * 3);
            fill(theirs, size * 3, 3);
            module.release(ours);
            ours = module.make(size);
            fill(ours, size, 4);
            CHECK(dlclose(module.handle) == 0);
            CHECK(holds(theirs, size * 3, 3) && holds(ours, size, 4));
            free(theirs);
            free(ours);
        }
    }
}

static void outlived(void) {
    exchange(RTLD_LOCAL);
    exchange(RTLD_GLOBAL);
}

static void bound_deeply(void) {
    exchange(RTLD_LOCAL | RTLD_DEEPBIND);
}

static void *load_often(void *unused) {
    for (unsigned i = 0; i < 30; i++) {
        struct module module = load(RTLD_LOCAL);
        void *block = module.make(LARGE);
        dlclose(module.handle);
        free(block);
    }
    return unused;
}

static void *allocate_often(void *stop) {
    do {
        free(got(malloc(LARGE), LARGE));
        free(got(malloc(100), 100));
        CHECK(!dlopen("/no/such/library", RTLD_NOW) && dlerror());
    } while (!*(atomic_bool *)stop);
    return NULL;
}

static void beside_loading(void) {
    atomic_bool stop = false;
    void *busy = new_thread(allocate_often, &stop);
    void *loaders[2] = {new_thread(load_often, NULL), new_thread(load_often, NULL)};
    join(loaders[0]);
    join(loaders[1]);
    stop = true;
    join(busy);
}

// The module's destructor of a thread's values is called after the module was closed elsewhere.
static void threads_of_a_module(void) {
    for (unsigned i = 0; i < 10; i++) {
        struct module module = load(RTLD_LOCAL);
        void *block = join(new_thread(module.start, NULL));
        CHECK(block && holds(block, LARGE, 1));
        dlclose(module.handle);
        free(block);
        free(got(malloc(LARGE), LARGE));
    }
}

const struct promise module_promises[] = {
    {"outlived", "program and module resize and free each other's blocks, after dlclose too",
     outlived, 0},
    {"bound-deeply", "so do they where the module prefers the C library (RTLD_DEEPBIND)",
     bound_deeply, 0},
    {"beside-loading", "threads allocate while others load and unload", beside_loading, 0},
    {"threads-of-a-module", "a module's thread-local blocks, freed at the thread's end",
     threads_of_a_module, 0},
    {0},
};
