// SPDX-License-Identifier: MIT
//
// contract [--served-from N] [--served-alignment N] [--hook LIBRARY --options TEXT] [--module FILE]
//          [--together SEED] [--list] [NAME...]
//
// Keeps the promises that are named, or all that can be kept in one process (--together), in an
// order that follows from the seed. Prints "kept NAME" for each; ends with 99 after one that was
// broken. `run` has the ways to run it.
#include "contract.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct promise *const all_promises[];

const char *module_path;
bool is_hooked;

static const struct promise *current;
static bool (*owns)(const void *address);
static size_t served_from = SIZE_MAX, served_alignment = PAGE;
static atomic_size_t served;

// Without a stream: the process may be in any state.
static void say(const char *word, const char *text) {
    char line[512];
    int length = snprintf(line, sizeof line, "%s %s%s\n", word, current ? current->name : "", text);
    if (write(1, line, (size_t)length) < 0) {
        _exit(98);
    }
}

void broken(const char *file, int line, const char *condition) {
    char text[400];
    snprintf(text, sizeof text, ": %s:%d: not true: %s", file, line, condition);
    say("broken", text);
    _exit(99);
}

void kept(void) {
    say("kept", "");
}

void *got_at(const char *file, int line, void *block, size_t alignment, size_t size) {
    if (!block) {
        broken(file, line, "there is a block");
    }
    if ((uintptr_t)block % alignment != 0) {
        broken(file, line, "the block is aligned");
    }
    if (size >= served_from && alignment <= served_alignment) {
        if (!owns || !owns(block)) {
            broken(file, line, "the block is served by Pagewise");
        }
        served++;
    }
    return block;
}

// As R does: the library is loaded, and functions in our own tables are replaced.
static void hook(const char *library, const char *options) {
    const char *reason = "";
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    bool (*switch_on)(const char *, const char **) =
        handle ? (bool (*)(const char *, const char **))dlsym(handle, "pw_switch_on") : NULL;
    if (!switch_on || !switch_on(options, &reason)) {
        fprintf(stderr, "contract: cannot be switched on: %s\n", handle ? reason : dlerror());
        exit(2);
    }
    is_hooked = true;
}

static void keep(const struct promise *promise) {
    size_t before = served;
    current = promise;
    promise->keep();
    if (promise->how & ENDS) {
        return;
    }
    if (served_from != SIZE_MAX && !(promise->how & UNSERVED) && served == before) {
        broken(__FILE__, __LINE__, "Pagewise has served this case");
    }
    kept();
}

static const struct promise *find(const char *name) {
    for (size_t i = 0; all_promises[i]; i++) {
        for (const struct promise *one = all_promises[i]; one->name; one++) {
            if (strcmp(one->name, name) == 0) {
                return one;
            }
        }
    }
    fprintf(stderr, "contract: no such promise: %s\n", name);
    exit(2);
}

static void list(void) {
    for (size_t i = 0; all_promises[i]; i++) {
        for (const struct promise *one = all_promises[i]; one->name; one++) {
            printf("%s\t%s\n", one->name, one->text);
        }
    }
}

static void keep_together(uint64_t seed) {
    static const struct promise *order[500];
    struct random random = {seed};
    size_t count = 0;
    for (size_t i = 0; all_promises[i]; i++) {
        for (const struct promise *one = all_promises[i]; one->name; one++) {
            if (!(one->how & (ENDS | ALONE)) && count < sizeof order / sizeof *order) {
                order[count++] = one;
            }
        }
    }
    for (size_t left = count; left > 0; left--) {
        size_t next = random_below(&random, left);
        keep(order[next]);
        order[next] = order[left - 1];
    }
}

int main(int count, char **words) {
    static const struct option options[] = {
        {"served-from", 1, NULL, 'f'}, {"served-alignment", 1, NULL, 'a'},
        {"hook", 1, NULL, 'h'},        {"options", 1, NULL, 'o'},
        {"module", 1, NULL, 'm'},      {"together", 1, NULL, 't'},
        {"list", 0, NULL, 'l'},        {0},
    };
    const char *library = NULL, *text = NULL, *seed = NULL;
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
        switch (option) {
        case 'f':
            served_from = strtoull(optarg, NULL, 0);
            break;
        case 'a':
            served_alignment = strtoull(optarg, NULL, 0);
            break;
        case 'h':
            library = optarg;
            break;
        case 'o':
            text = optarg;
            break;
        case 'm':
            module_path = optarg;
            break;
        case 't':
            seed = optarg;
            break;
        case 'l':
            list();
            return 0;
        default:
            return 2;
        }
    }
    if (library) {
        hook(library, text);
    }
    owns = (bool (*)(const void *))dlsym(RTLD_DEFAULT, "pw_owns");
    free(got(malloc(MEGABYTE), MEGABYTE)); // served from the first one on
    if (seed) {
        keep_together(strtoull(seed, NULL, 0));
    }
    for (int i = optind; i < count; i++) {
        keep(find(words[i]));
    }
    return 0;
}
