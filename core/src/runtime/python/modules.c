// SPDX-License-Identifier: MIT
#include "os/module.h"
#include "os/os.h"
#include "process/state.h"
#include "runtime/python/python.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Where NumPy makes and copies arrays: since 2.0, and before.
static const char *const array_modules[] = {
    "/numpy/_core/_multiarray_umath.",
    "/numpy/core/_multiarray_umath.",
};

// Libraries that work on arrays, as they are installed: pip's and conda's folder, and Debian's.
static const char *const packages[] = {"numpy", "pandas", "scipy", "sklearn"};
static const char *const folders[] = {"/site-packages/", "/dist-packages/"};

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool contains_any(const char *path, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strstr(path, parts[i])) {
            return true;
        }
    }
    return false;
}

static bool is_package(const char *name) {
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        size_t length = strlen(packages[i]);
        if (starts_with(name, packages[i]) && name[length] == '/') {
            return true;
        }
    }
    return false;
}

// The folder nearest to the file counts: an environment may lie inside another one's.
static bool is_in_package(const char *path) {
    const char *package = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        for (const char *at = path; (at = strstr(at, folders[i])); at++) {
            const char *after = at + strlen(folders[i]);
            package = after > package ? after : package;
        }
    }
    return package && is_package(package);
}

// libpython3.11.so.1.0, or an executable python3.11 that has it inside.
bool pw_python_loads(const char *path) {
    const char *name = pw_os_base_name(path);
    return starts_with(name, "libpython3.") || starts_with(name, "python3") ||
           strcmp(name, "python") == 0;
}

enum pw_module pw_python_module_of_path(const char *path) {
    if (pw_python_loads(path)) {
        return PW_MODULE_RUNTIME; // NumPy allocates through it since 2.5
    }
    if (!ends_with(path, ".so")) {
        return PW_MODULE_OTHER;
    }
    if (contains_any(path, array_modules, sizeof array_modules / sizeof *array_modules)) {
        return PW_MODULE_RUNTIME;
    }
    return is_in_package(path) ? PW_MODULE_EXTENSION : PW_MODULE_OTHER;
}

// loky puts it behind -m; joblib has a copy of loky.
static bool starts_worker(const char *module) {
    static const char joblibs[] = "joblib.externals.", worker[] = "loky.backend.popen_";
    if (starts_with(module, joblibs)) {
        module += sizeof joblibs - 1;
    }
    return starts_with(module, worker);
}

bool pw_python_is_worker(const char *words, size_t size) {
    const char *end = words + size;
    bool is_module = false; // what the word before says of this one
    for (const char *word = words + strnlen(words, size) + 1; word < end && *word;
         word += strlen(word) + 1) {
        if (is_module) {
            return starts_worker(word);
        }
        is_module = strcmp(word, "-m") == 0;
    }
    return false;
}

static bool is_worker(void) {
    char words[4096];
    ssize_t size = pw_os_read_text("/proc/self/cmdline", words, sizeof words);
    return size > 0 && pw_python_is_worker(words, (size_t)size);
}

// pyarrow, which pandas imports where it is installed, has a jemalloc of its own. That would start
// a thread when it is loaded, beside which nothing is shared. All that the thread does is to give
// free memory of jemalloc's back, which else is done by whoever allocates there. Who has set the
// variable has decided. Not beside other threads, which may be reading the environment.
static void keep_jemalloc_to_itself(const struct pw_options *options) {
    if (options->share != PW_SHARE_OFF && pw_os_thread_count() == 1) {
        setenv("JE_ARROW_MALLOC_CONF", "background_thread:false", 0);
    }
}

extern int Py_IsInitialized(void) __attribute__((weak));

bool pw_python_is_linked(void) {
    return Py_IsInitialized != NULL;
}

bool pw_python_find(struct pw_process *process, bool is_start) {
    process->serves_python =
        pw_python_is_linked() || (!is_start && dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL);
    if (process->serves_python) {
        process->in_worker = is_worker();
        keep_jemalloc_to_itself(&process->options);
    }
    return process->serves_python;
}
