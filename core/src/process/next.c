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

PW_API void *pw_find_next(const char *name) {
    return pw_os_find_next(name);
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
