// SPDX-License-Identifier: MIT
#include "process/pools.h"
#include "os/module.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// As R installs the libraries of packages.
static bool is_timer(const char *path) {
    static const char *const ends[] = {"/cli/libs/cli.so", "/later/libs/later.so"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length >= end && strcmp(path + length - end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

enum pw_pool pw_pool_of_path(const char *path) {
    const char *name = pw_os_base_name(path);
    if (starts_with(name, "libopenblas") || starts_with(name, "libscipy_openblas") ||
        starts_with(name, "libblis")) {
        return PW_POOL_BLAS;
    }
    if (starts_with(name, "libgomp")) {
        return PW_POOL_OPENMP;
    }
    return is_timer(path) ? PW_POOL_TIMER : PW_POOL_NONE;
}

enum pw_pool pw_pool_at(const void *site) {
    const char *path = pw_os_module_path(site);
    return path ? pw_pool_of_path(path) : PW_POOL_NONE;
}
