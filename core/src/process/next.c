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
#include <string.h>

typedef void *find_function(const char *name);

// The name of the file that contains `function`: to look for a symbol that is not there instead
// allocates, and changes what dlerror says.
static bool is_called(const void *function, const char *library) {
    Dl_info info;
    if (!function || !dladdr(function, &info) || !info.dli_fname) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return !strncmp(slash ? slash + 1 : info.dli_fname, library, strlen(library));
}

// A second library of ours behind this one, of the other kind or from another folder
// (/etc/ld.so.preload and LD_PRELOAD): its pw_find_next. It must not be taken for the functions
// behind us: its malloc and ours have one core, which would call itself without end.
static find_function *find_second(void) {
    static find_function *second;
    static bool is_known;
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
        const void *next = pw_os_find_next("malloc");
        if (is_called(next, "libpagewise-preload.so") ||
            is_called(next, "libpagewise-general.so")) {
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
    void *first = look_up ? look_up(RTLD_DEFAULT, name) : dlsym(RTLD_DEFAULT, name);
    return is_called(first, library);
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
