// SPDX-License-Identifier: MIT
//
// The calls by which a program enters a sandbox (sandbox.h), or its first thread ends. Compiled
// wherever the malloc family is, by whoever defines FAMILY, FAMILY_API and FIND_CALL as for
// family.h.

#include "block/keeper.h"
#include "entry/sandbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <threads.h>

FAMILY_API int FAMILY(prctl)(int option, ...) {
    unsigned long arguments[4]; // as many as there may be, as the C library takes them
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        arguments[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    return pw_sandbox_prctl(option, arguments);
}

FAMILY_API int FAMILY(unshare)(int flags) {
    return pw_sandbox_unshare(flags);
}

FAMILY_API int FAMILY(setns)(int fd, int type) {
    return pw_sandbox_setns(fd, type);
}

// Looked for once at the start, and by a constructor that ends a thread earlier: to look needs the
// dynamic loader's lock, which a thread that waits for this one may hold.
static struct {
    void (*pthread_exit)(void *);
    void (*thrd_exit)(int);
    int (*pthread_cancel)(pthread_t);
} next_exit;

static void find_exit_calls(void) {
    next_exit.pthread_exit = (void (*)(void *))FIND_CALL("pthread_exit");
    next_exit.thrd_exit = (void (*)(int))FIND_CALL("thrd_exit");
    next_exit.pthread_cancel = (int (*)(pthread_t))FIND_CALL("pthread_cancel");
}

FAMILY_API void FAMILY(pthread_exit)(void *result) {
    pw_keeper_before_exit(&pw_process);
    if (!next_exit.pthread_exit) {
        find_exit_calls();
    }
    next_exit.pthread_exit(result);
    abort(); // it does not return
}

FAMILY_API void FAMILY(thrd_exit)(int result) {
    pw_keeper_before_exit(&pw_process);
    if (!next_exit.thrd_exit) {
        find_exit_calls();
    }
    next_exit.thrd_exit(result);
    abort();
}

FAMILY_API int FAMILY(pthread_cancel)(pthread_t thread) {
    pw_keeper_before_cancel(&pw_process, thread);
    if (!next_exit.pthread_cancel) {
        find_exit_calls();
    }
    return next_exit.pthread_cancel(thread);
}
