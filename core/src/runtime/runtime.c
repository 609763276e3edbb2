// SPDX-License-Identifier: MIT
#include "runtime/runtime.h"
#include "os/module.h"
#include "process/pools.h"
#include "process/state.h"
#include "runtime/r/r.h"

#include <stddef.h>

static const struct runtime {
    enum pw_module (*module_of_path)(const char *path);
    bool (*find)(struct pw_process *process);
} runtimes[] = {
    {pw_r_module_of_path, pw_r_find},
};

#define RUNTIMES (sizeof runtimes / sizeof *runtimes)

enum pw_module pw_module_of_path(const char *path) {
    enum pw_module module = PW_MODULE_OTHER;
    for (size_t i = 0; i < RUNTIMES && module == PW_MODULE_OTHER; i++) {
        module = runtimes[i].module_of_path(path);
    }
    return module;
}

// What a pool keeps for itself, its idle threads may write to: not trusted, whatever the user says.
struct pw_caller pw_caller_at(struct pw_process *process, const void *site) {
    const char *path = pw_os_module_path(site);
    enum pw_module module = path ? pw_module_of_path(path) : PW_MODULE_OTHER;
    enum pw_pool pool = path ? pw_pool_of_path(path) : PW_POOL_NONE;
    bool is_pool = pool == PW_POOL_BLAS || pool == PW_POOL_OPENMP;
    if (module == PW_MODULE_OTHER && !is_pool && process->options.modules == PW_MODULES_ALL) {
        module = PW_MODULE_RUNTIME;
    }
    return (struct pw_caller){.module = module, .in_blas = pool == PW_POOL_BLAS};
}

bool pw_runtime_find(struct pw_process *process) {
    bool found = false;
    for (size_t i = 0; i < RUNTIMES && !found; i++) {
        found = runtimes[i].find(process);
    }
    return found;
}
