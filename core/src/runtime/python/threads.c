// SPDX-License-Identifier: MIT
#include "runtime/python/python.h"

#include <dlfcn.h>
#include <stddef.h>

// The interpreter's own list (cpython/pystate.h, "for debuggers"). A thread enters and leaves it
// under the lock that the caller has.
bool pw_python_has_other_threads(void) {
    void *(*first_interpreter)(void) =
        (void *(*)(void))dlsym(RTLD_DEFAULT, "PyInterpreterState_Head");
    void *(*next_interpreter)(void *) =
        (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyInterpreterState_Next");
    void *(*first_thread)(void *) =
        (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyInterpreterState_ThreadHead");
    void *(*next_thread)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyThreadState_Next");
    unsigned threads = 0;
    if (!first_interpreter || !next_interpreter || !first_thread || !next_thread) {
        return false;
    }
    for (void *one = first_interpreter(); one && threads < 2; one = next_interpreter(one)) {
        for (void *thread = first_thread(one); thread && threads < 2;
             thread = next_thread(thread)) {
            threads++;
        }
    }
    return threads > 1;
}
