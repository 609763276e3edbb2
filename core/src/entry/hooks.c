// SPDX-License-Identifier: MIT
//
// Switching on and off inside a running R: the malloc family and the copy functions (family.h) are
// put into the GOTs of R and its packages, where they are not preloaded already.

#include "entry/got.h"
#include "entry/switch.h"
#include "os/os.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/pools.h"
#include "process/state.h"
#include "runtime/python/python.h"
#include "runtime/r/frozen.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

// --- the functions ---------------------------------------------------------------

// The C library's, as R finds them.
static struct {
    void *(*memcpy)(void *, const void *, size_t);
    void *(*memmove)(void *, const void *, size_t);
    void *(*memset)(void *, int, size_t);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*getrusage)(__rusage_who_t, struct rusage *);
    void *(*dlopen)(const char *, int);
    int (*clone)(int (*)(void *), void *, int, void *, ...);
} next;

#define FAMILY(name)    hooked_##name
#define FAMILY_API      static
#define FAMILY_SYMBOL   ".local"
#define NEXT(name)      next.name
#define FIND_CALL(name) find_call(name)

// The C library's where the executable has not called it: what others have bound elsewhere stays as
// it is.
static void *find_call(const char *name) {
    void *stub, *found = pw_got_definition(name, &stub);
    if (!found && stub) {
        found = pw_os_c_library_function(name);
    }
    return found ? found : stub;
}

#include "entry/family.h"
#include "entry/family_sandbox.h"

static void *hooked_dlopen(const char *path, int flags);
#ifdef HAS_SYSCALL
extern long hooked_syscall(long number, ...) __attribute__((visibility("hidden")));
#endif

#define FUNCTION(which)                                                                            \
    { .name = #which, .replacement = (void *)hooked_##which }
#define NEEDED_FOR(which)                                                                          \
    { .name = #which, .replacement = (void *)hooked_##which, .until_no_use = true }

static struct pw_got_function functions[] = {
    FUNCTION(malloc),
    FUNCTION(calloc),
    NEEDED_FOR(free),
    NEEDED_FOR(free_sized),
    NEEDED_FOR(free_aligned_sized),
    NEEDED_FOR(realloc),
    NEEDED_FOR(reallocarray),
    FUNCTION(memalign),
    FUNCTION(aligned_alloc),
    FUNCTION(posix_memalign),
    FUNCTION(valloc),
    FUNCTION(pvalloc),
    NEEDED_FOR(malloc_usable_size),
    FUNCTION(memcpy),
    FUNCTION(memmove),
    FUNCTION(memset),
    FUNCTION(__memcpy_chk),
    FUNCTION(__memmove_chk),
    FUNCTION(__memset_chk),
    {.name = "pthread_create", .replacement = (void *)hooked_pthread_create, .of_pools = true},
    FUNCTION(clone),
    {.name = "__clone", .replacement = (void *)hooked_clone},
    FUNCTION(getrusage),
#define CALL_FUNCTION(result, name, parameters) NEEDED_FOR(name),
    MAPPING_CALLS(CALL_FUNCTION)
#ifdef HAS_SYSCALL
        NEEDED_FOR(syscall),
#endif
    NEEDED_FOR(prctl), // while blocks live
    NEEDED_FOR(unshare),
    NEEDED_FOR(setns),
    NEEDED_FOR(pthread_exit),
    NEEDED_FOR(thrd_exit),
    NEEDED_FOR(pthread_cancel),
    // R and Python load packages by absolute path. Other callers' search paths would depend on the
    // caller.
    {.name = "dlopen", .replacement = (void *)hooked_dlopen, .of_loader = true},
};

#define FUNCTION_COUNT (sizeof functions / sizeof functions[0])

static void find_originals(void) {
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        functions[i].original = find_call(functions[i].name);
        functions[i].stub = dlsym(RTLD_DEFAULT, functions[i].name);
    }
    find_mapping_calls();
    NEW_CALLS(FIND_ONE) // later the program's own pointers may be ours
    find_exit_calls();
    next.memcpy = (void *(*)(void *, const void *, size_t))find_call("memcpy");
    next.memmove = (void *(*)(void *, const void *, size_t))find_call("memmove");
    next.memset = (void *(*)(void *, int, size_t))find_call("memset");
    next.pthread_create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                                   void *))find_call("pthread_create");
    next.getrusage = (int (*)(__rusage_who_t, struct rusage *))find_call("getrusage");
    next.clone = (int (*)(int (*)(void *), void *, int, void *, ...))find_call("clone");
    next.dlopen = (void *(*)(const char *, int))find_call("dlopen");
}

// Do R's malloc and free belong to the C library? Our frees go there.
static bool allocator_is_known(void) {
    Dl_info found, expected;
    void *stub, *seen = pw_got_definition("malloc", &stub);
    return seen && dladdr(seen, &found) && dladdr((void *)__libc_malloc, &expected) &&
           found.dli_fbase == expected.dli_fbase;
}

#define POSIX_THREADS 1 // of OpenBLAS: its own, and not OpenMP's
#define SOFT_PAUSE    1 // omp_pause_soft

// --- switching ---------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    struct pw_got got;
    bool hooked;  // functions are in place
    bool started; // the collector was told to announce itself
} hooks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void after_fork_child(void) {
    pthread_mutex_init(&hooks.lock, NULL);
}

// False: it has threads of its own, and no function of its own that ends them.
static bool end_blas_threads(void *library) {
    // As OpenBLAS has it; with 64-bit integers; in the wheels of NumPy and SciPy.
    static const char *const names[] = {"openblas_get_parallel", "openblas_get_parallel64_",
                                        "scipy_openblas_get_parallel",
                                        "scipy_openblas_get_parallel64_"};
    void (*end_threads)(void) = (void (*)(void))dlsym(library, "blas_thread_shutdown_");
    int (*parallel)(void) = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !parallel; i++) {
        parallel = (int (*)(void))dlsym(library, names[i]);
    }
    if (!parallel || parallel() != POSIX_THREADS) {
        return true;
    }
    if (end_threads) {
        end_threads();
    }
    return end_threads != NULL;
}

// OpenBLAS ends its threads before each fork, by a handler that it registers when it is loaded. The
// copy in NumPy's wheels hides the function since 2.5: the handler is the only way to it.
static void end_threads_by_fork(void) {
    if (pw_os_thread_count() > 1 && !__atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED)) {
        pw_os_fork_for_handlers();
    }
}

static void end_openmp_threads(void *library) {
    int (*level)(void) = (int (*)(void))dlsym(library, "omp_get_level");
    int (*pause_openmp)(int) = (int (*)(int))dlsym(library, "omp_pause_resource_all");
    if (level && pause_openmp && level() == 0) {
        pause_openmp(SOFT_PAUSE);
    }
}

#define MOST_POOLS 16u

// Pools whose threads were ended; those found just now come behind.
static struct {
    uintptr_t addresses[MOST_POOLS];
    char paths[MOST_POOLS][512];
    size_t settled, count;
} pools;

static bool is_noted(uintptr_t address) {
    for (size_t i = 0; i < pools.count; i++) {
        if (pools.addresses[i] == address) {
            return true;
        }
    }
    return false;
}

static int note_pool(struct dl_phdr_info *info, size_t size, void *unused) {
    enum pw_pool pool = pw_pool_of_path(info->dlpi_name);
    (void)size, (void)unused;
    if ((pool == PW_POOL_BLAS || pool == PW_POOL_OPENMP) && pools.count < MOST_POOLS &&
        strlen(info->dlpi_name) < sizeof pools.paths[0] && !is_noted(info->dlpi_addr)) {
        pools.addresses[pools.count] = info->dlpi_addr;
        strcpy(pools.paths[pools.count++], info->dlpi_name);
    }
    return 0;
}

// Python's packages have copies of their own, which are found by path. OpenBLAS starts its threads
// when it is loaded, before its pthread_create can be replaced.
static void end_new_pools(void) {
    bool all_end = true;
    dl_iterate_phdr(note_pool, NULL);
    for (; pools.settled < pools.count; pools.settled++) {
        void *library = dlopen(pools.paths[pools.settled], RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            all_end &= end_blas_threads(library);
            end_openmp_threads(library);
            dlclose(library);
        }
    }
    if (!all_end) {
        end_threads_by_fork();
    }
}

// Threads that a pool started before its pthread_create was replaced are not known. Both pools
// start theirs anew at the next call; here nobody is in one (quiet.h), and where other threads of
// Python may be, none is ended. Timers do not: they are told by the function that they run.
static void settle_threads(void) {
    if (!pw_python_has_other_threads()) {
        pools.settled = pools.count = 0;
        end_blas_threads(RTLD_DEFAULT);
        end_openmp_threads(RTLD_DEFAULT);
        end_new_pools();
    }
    struct pw_earlier earlier[PW_EARLIER_THREADS];
    pw_earlier_find(earlier);
    if (pw_process_enter()) {
        memcpy(pw_process.quiet.earlier, earlier, sizeof earlier);
        pw_process_leave();
    }
}

static void *hooked_dlopen(const char *path, int flags) {
    void *library = next.dlopen(path, flags);
    pthread_mutex_lock(&hooks.lock);
    if (library && hooks.hooked && pw_got_patch(&hooks.got) > 0 && pw_process.serves_python &&
        !pw_python_has_other_threads()) {
        end_new_pools();
    }
    pthread_mutex_unlock(&hooks.lock);
    return library;
}

// NULL, or why R does not reach us.
static const char *hook(void) {
    if (pw_gate.preloaded || hooks.hooked) {
        return NULL;
    }
    if (!allocator_is_known()) {
        return "another library stands before the C library's malloc (preloaded, or a sanitizer)";
    }
    if (!hooks.got.functions) {
        find_originals();
        hooks.got.functions = functions;
        hooks.got.function_count = FUNCTION_COUNT;
        pthread_atfork(NULL, NULL, after_fork_child);
    }
    pw_got_patch(&hooks.got);
    settle_threads();
    hooks.hooked = hooks.got.patched > 0;
    pw_gate.hooked |= hooks.hooked;
    return hooks.hooked
               ? NULL
               : "no module of R, and no NumPy, was found in this process, or none can be patched";
}

bool pw_switch_on(const char *options, const char **reason) {
    const char *problem = NULL;
    pthread_mutex_lock(&hooks.lock);
    problem = pw_heap_switch_on(options);
    if (!problem) {
        problem = hook();
        if (problem) {
            pw_heap_switch_off();
        }
    }
    if (!problem && !hooks.started) {
        pw_serve_runtime(false);
        hooks.started = true;
    }
    pthread_mutex_unlock(&hooks.lock);
    if (reason) {
        *reason = problem;
    }
    return problem == NULL;
}

void pw_switch_off(void) {
    pw_r_thaw_by_hand(); // R's finalizers may run, and switch on and off
    pthread_mutex_lock(&hooks.lock);
    pw_heap_switch_off();
    pw_block_recover(&pw_process);
    if (hooks.hooked) {
        pw_got_restore(&hooks.got, pw_process.arena.live_pages == 0);
        hooks.hooked = false;
    }
    pthread_mutex_unlock(&hooks.lock);
}
