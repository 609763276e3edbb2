// SPDX-License-Identifier: MIT
#include "runtime/runtime.h"
#include "os/module.h"
#include "process/pools.h"
#include "process/state.h"
#include "runtime/python/python.h"
#include "runtime/r/r.h"

#include <stddef.h>
#include <string.h>

static const struct runtime {
    enum pw_module (*module_of_path)(const char *path);
    bool (*loads)(const char *path); // NULL: the modules that are PW_MODULE_RUNTIME
    bool (*find)(struct pw_process *process, bool is_start);
} runtimes[] = {
    {pw_r_module_of_path, NULL, pw_r_find},
    {pw_python_module_of_path, pw_python_loads, pw_python_find},
};

#define RUNTIMES (sizeof runtimes / sizeof *runtimes)

static struct pw_caller known_module(const char *path) {
    struct pw_caller caller = {.module = PW_MODULE_OTHER};
    for (size_t i = 0; i < RUNTIMES && caller.module == PW_MODULE_OTHER; i++) {
        caller.module = runtimes[i].module_of_path(path);
    }
    return caller;
}

enum pw_module pw_module_of_path(const char *path) {
    return known_module(path).module;
}

bool pw_module_loads(const char *path) {
    bool loads = false;
    for (size_t i = 0; i < RUNTIMES && !loads; i++) {
        loads = runtimes[i].loads ? runtimes[i].loads(path)
                                  : runtimes[i].module_of_path(path) == PW_MODULE_RUNTIME;
    }
    return loads;
}

// --- callers -------------------------------------------------------------------

#define KNOWN_PATHS   8u
#define LONGEST_KNOWN 120u

struct kind {
    struct pw_caller caller;
    enum pw_pool pool;
};

// A path says what a module is, and most calls come from few modules: the first ones that are met
// are remembered, by their whole paths. What is ready never changes.
static struct {
    bool ready;
    struct kind kind;
    char path[LONGEST_KNOWN];
} known[KNOWN_PATHS];
static unsigned known_claimed;

static void remember(const char *path, struct kind kind) {
    size_t size = strlen(path) + 1;
    if (size > LONGEST_KNOWN || __atomic_load_n(&known_claimed, __ATOMIC_RELAXED) >= KNOWN_PATHS) {
        return;
    }
    unsigned place = __atomic_fetch_add(&known_claimed, 1, __ATOMIC_RELAXED);
    if (place < KNOWN_PATHS) {
        memcpy(known[place].path, path, size);
        known[place].kind = kind;
        __atomic_store_n(&known[place].ready, true, __ATOMIC_RELEASE);
    }
}

static struct kind kind_of(const char *path) {
    for (unsigned i = 0; i < KNOWN_PATHS; i++) {
        if (__atomic_load_n(&known[i].ready, __ATOMIC_ACQUIRE) &&
            strcmp(known[i].path, path) == 0) {
            return known[i].kind;
        }
    }
    struct kind kind = {known_module(path), pw_pool_of_path(path)};
    remember(path, kind);
    return kind;
}

// What a pool keeps for itself, its idle threads may write to: not trusted, whatever the user says.
struct pw_caller pw_caller_at(struct pw_process *process, const void *site) {
    const char *path = pw_os_module_path(site);
    struct kind kind = path ? kind_of(path) : (struct kind){known_module(""), PW_POOL_NONE};
    struct pw_caller caller = kind.caller;
    bool is_pool = kind.pool == PW_POOL_BLAS || kind.pool == PW_POOL_OPENMP;
    if (caller.module == PW_MODULE_OTHER && !is_pool &&
        process->options.modules == PW_MODULES_ALL) {
        caller.module = PW_MODULE_RUNTIME;
    }
    caller.in_blas = kind.pool == PW_POOL_BLAS;
    return caller;
}

bool pw_runtime_find(struct pw_process *process, bool is_start) {
    bool found = false;
    for (size_t i = 0; i < RUNTIMES; i++) { // R may have Python inside, and Python R
        found |= runtimes[i].find(process, is_start);
    }
    return found;
}
