// SPDX-License-Identifier: MIT
//
// A library that comes and goes, with blocks that outlive it; and, where the program knows of
// Pagewise after all, the functions by which a program may speak to it.
#include "hostile.h"

#include <dlfcn.h>
#include <stdlib.h>

const char *plugin_path;
bool (*switch_on)(const char *options, const char **reason);
void (*switch_off)(void);
const char *switch_options;

static void *handle;

void libraries_end(void) {
    if (handle) {
        dlclose(handle);
        handle = NULL;
    }
}

// A block that the library has made and filled is the program's from then on.
static void load(void) {
    bool may = plugin_path && world.may_load;
    void *library = may ? dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        if (may) {
            fail("dlopen: %s", dlerror());
        }
        return;
    }
    report_count(&report->loads, 1);
    unsigned char *(*make)(size_t) = (unsigned char *(*)(size_t))dlsym(library, "plugin_make");
    struct block *place = some_place();
    size_t size = place->smallest + random_below(&world.random, place->room - place->smallest);
    unsigned char *got = make ? make(size) : NULL;
    if (!got) {
        fail("the library gave no block");
    }
    adopt(place, got, size);
    for (size_t i = 0; i < size; i++) {
        place->shadow[i] = (unsigned char)(i * 5 + 1);
    }
    check(place);
    say("the library made %zu bytes at %p", size, (void *)got);
    if (handle && random_chance(&world.random, 2)) {
        dlclose(handle);
        handle = NULL;
    }
    if (handle || random_chance(&world.random, 2)) {
        dlclose(library);
    } else {
        handle = library;
    }
}

// By a thread, beside whatever else happens.
void libraries_load_once(void) {
    void *library = plugin_path ? dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) {
        report_count(&report->loads, 1);
        dlclose(library);
    }
}

static void unload(void) {
    if (world.may_load) {
        libraries_end();
    }
}

static void speak(void) {
    static size_t (*trim)(void), (*noticed)(void), (*ended)(void);
    if (!trim && world.may_load) {
        trim = (size_t(*)(void))dlsym(RTLD_DEFAULT, "pw_trim");
        noticed = (size_t(*)(void))dlsym(RTLD_DEFAULT, "pw_collection_noticed");
        ended = (size_t(*)(void))dlsym(RTLD_DEFAULT, "pw_collection_ended");
    }
    switch (trim ? random_below(&world.random, 4) : 4) {
    case 0:
        trim();
        break;
    case 1:
        noticed();
        break;
    case 2: // its caller promises that nobody else writes
        if (!world.threads) {
            ended();
        }
        break;
    default:
        break;
    }
}

static void switch_over(void) {
    const char *reason = "";
    if (!switch_on || !world.may_load) {
        return;
    }
    say("switched off and on");
    switch_off();
    for (int i = 0; i < 8; i++) {
        struct block *block = some_block();
        if (block && !block->raced) {
            check_some(block);
        }
    }
    if (!switch_on(switch_options, &reason)) {
        fail("cannot be switched on again: %s", reason);
    }
}

const struct operation library_operations[] = {
    {"dlopen", load, 500, ANYWHERE},
    {"dlclose", unload, 100, ANYWHERE},
    {"speak", speak, 300, ANYWHERE},
    {"switch", switch_over, 60, ANYWHERE},
    {0},
};
