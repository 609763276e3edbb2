// SPDX-License-Identifier: MIT
#include "os/module.h"
#include "runtime/r/r.h"

#include <string.h>

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// .../PACKAGE/libs/PACKAGE.so, where R installs the library of a package.
static bool is_package_library(const char *path, const char *name) {
    static const char folder[] = "/libs/";
    size_t name_length = strcspn(name, ".");
    size_t lead = (size_t)(name - path);
    if (lead < sizeof folder - 1 + name_length + 1 ||
        strncmp(name - (sizeof folder - 1), folder, sizeof folder - 1) != 0) {
        return false;
    }
    const char *package = name - (sizeof folder - 1) - name_length;
    return package[-1] == '/' && strncmp(package, name, name_length) == 0 &&
           strcmp(name + name_length, ".so") == 0;
}

// .../R/modules/NAME.so: libraries of base packages, lapack.so among them.
static bool is_extension(const char *path, const char *name) {
    return strstr(path, "/R/modules/") != NULL || is_package_library(path, name);
}

// libR.so, or the executable of an R that was built without a shared library.
static bool is_runtime(const char *path, const char *name) {
    return starts_with(name, "libR.so") || starts_with(name, "libRblas") ||
           starts_with(name, "libRlapack") || strstr(path, "/R/bin/exec/R") != NULL;
}

enum pw_module pw_r_module_of_path(const char *path) {
    const char *name = pw_os_base_name(path);
    if (is_extension(path, name)) {
        return PW_MODULE_EXTENSION;
    }
    return is_runtime(path, name) ? PW_MODULE_RUNTIME : PW_MODULE_OTHER;
}
