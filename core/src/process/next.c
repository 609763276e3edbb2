// SPDX-License-Identifier: MIT
//
// Part of each library that is preloaded: the functions behind it, and the order of the handlers
// that a program registers for its forks.
#include "os/dlsym.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

typedef void *find_function(const char *name);

static bool is_called(const char *path, const char *library) {
    const char *slash = strrchr(path, '/');
    return !strncmp(slash ? slash + 1 : path, library, strlen(library));
}

// To look for a symbol that is not there instead would allocate, before it is decided from whom.
static bool has_second(void) {
    Dl_info info;
    const struct link_map *module = NULL;
    if (!dladdr1((const void *)(uintptr_t)pw_first_preloaded_is, &info, (void **)&module,
                 RTLD_DL_LINKMAP)) {
        return false;
    }
    for (module = module->l_next; module; module = module->l_next) {
        if (is_called(module->l_name, "libpagewise-preload.so") ||
            is_called(module->l_name, "libpagewise-general.so")) {
            return true;
        }
    }
    return false;
}

// A second library of ours behind this one, of the other kind or from another folder
// (/etc/ld.so.preload and LD_PRELOAD): its pw_find_next. It must not be taken for the functions
// behind us: its malloc and ours have one core, which would call itself without end.
static find_function *find_second(void) {
    static find_function *second;
    static bool is_known;
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
        if (has_second()) {
            second = (find_function *)pw_os_find_next("pw_find_next");
        }
        __atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
    }
    return second;
}

PW_API void *pw_find_next(const char *name) {
    find_function *second = find_second();
    return second ? second(name) : pw_os_find_next(name);
}

bool pw_first_preloaded_is(const char *library) {
    pw_os_look_up *look_up = pw_os_next_dlsym();
    const char *name = "pw_find_next";
    const void *first = look_up ? look_up(RTLD_DEFAULT, name) : dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    return first && dladdr(first, &info) && info.dli_fname && is_called(info.dli_fname, library);
}

// What pthread_atfork calls. Before a fork the handler that was registered first runs last: ours,
// so that those of others may still wait for threads that allocate, whichever library was
// initialized first.
typedef int register_function(void (*)(void), void (*)(void), void (*)(void), void *);

PW_API int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *library) {
    static register_function *next;
    pw_process_watch_forks();
    if (!next) {
        next = (register_function *)pw_find_next("__register_atfork");
    }
    return next ? next(prepare, parent, child, library) : ENOMEM;
}
