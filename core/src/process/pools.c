// SPDX-License-Identifier: MIT
#include "process/pools.h"
#include "os/module.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// As R installs the libraries of packages.
static enum pw_pool pool_of_package(const char *path) {
    return ends_with(path, "/cli/libs/cli.so")       ? PW_POOL_TIMER
           : ends_with(path, "/later/libs/later.so") ? PW_POOL_LATER
                                                     : PW_POOL_NONE;
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
    return pool_of_package(path);
}

enum pw_pool pw_pool_at(const void *site) {
    const char *path = pw_os_module_path(site);
    return path ? pw_pool_of_path(path) : PW_POOL_NONE;
}
