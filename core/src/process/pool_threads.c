// SPDX-License-Identifier: MIT
#include "process/pool_threads.h"
#include "os/module.h"
#include "process/c_library.h"
#include "process/large_pages.h"
#include "process/lock.h"
#include "process/pools.h"
#include "process/quiet.h"
#include "process/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct pool_thread {
    void *(*start)(void *);
    void *argument;
    unsigned *threads; // where it counts
};

static void pool_thread_ends(void *threads) {
    pw_quiet_count(threads, -1);
}

static void *run_pool_thread(void *argument) {
    struct pool_thread thread = *(struct pool_thread *)argument;
    struct pw_os_signals for_good;
    void *result = NULL;
    pw_c_free(argument);
    pw_os_signals_block(&for_good);
    pw_os_cancel_restore(for_good.cancel);
    pw_quiet_in_pool();
    pw_quiet_count(thread.threads, 1);
    pthread_cleanup_push(pool_thread_ends, thread.threads);
    result = thread.start(thread.argument);
    pthread_cleanup_pop(1);
    return result;
}

// The entry of a copy of libgomp. NULL: it does not tell when it works, or there are too many.
static struct pw_openmp *openmp_runtime(const void *site) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *path = NULL;
    const void *module = pw_os_module_base(site, &path);
    void *library = module && path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL; // and keep it
    struct pw_openmp fresh = {.module = module}, *found = NULL;
    if (!library) {
        return NULL;
    }
    *(void **)&fresh.level = dlsym(library, "omp_get_level");
    *(void **)&fresh.num_teams = dlsym(library, "omp_get_num_teams");
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < PW_OPENMP_RUNTIMES && !found; i++) {
        struct pw_openmp *runtime = &pw_process.quiet.openmp[i];
        if (!runtime->module && fresh.level && fresh.num_teams) {
            *runtime = fresh;
        }
        found = runtime->module == module ? runtime : NULL;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

// Package later starts two kinds of threads by one function of its own, whose argument begins with
// what is to be called: timers, and since 1.4 threads that wait for files, and write into vectors
// which they have found.
static bool is_timer_of_later(const void *argument) {
    static const char timer[] = "_ZN5Timer12bg_main_funcEPv"; // Timer::bg_main_func(void *)
    Dl_info found;
    const void *function = NULL;
    return argument && pw_os_peek(argument, &function, sizeof function) && function &&
           dladdr(function, &found) && found.dli_saddr == function &&
           strcmp(found.dli_sname, timer) == 0;
}

// Where a thread that `site` starts counts; NULL: it is not known to be quiet at any time. Threads
// of OpenMP run the program's own code, which would find signals blocked: only where blocks may be
// shared at all.
static unsigned *counter_of(const void *site, const void *argument) {
    struct pw_quiet *quiet = &pw_process.quiet;
    struct pw_openmp *runtime = NULL;
    switch (pw_pool_at(site)) {
    case PW_POOL_TIMER:
        return &quiet->timers;
    case PW_POOL_LATER:
        return is_timer_of_later(argument) ? &quiet->timers : NULL;
    case PW_POOL_BLAS:
        return &quiet->blas;
    case PW_POOL_OPENMP:
        if (pw_process.serves_r || pw_process.serves_python ||
            pw_process.options.modules == PW_MODULES_ALL) {
            runtime = openmp_runtime(site);
        }
        return runtime ? &runtime->threads : NULL;
    default:
        return NULL;
    }
}

static int create_twice(pw_create_thread *create, pthread_t *thread,
                        const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int result = create(thread, attributes, start, argument);
    if (result == EAGAIN && pw_process_relieve()) { // a stack is a mapping or two
        result = create(thread, attributes, start, argument);
    }
    return result;
}

// Blocks leave the hugetlb pool's pages while nobody writes to them, and none comes there any more.
static void unknown_thread_comes(void) {
    struct pw_caller caller = {0};
    if (!pw_process.huge.hugetlb) {
        return;
    }
    pw_process_look_at_hugetlb(&caller);
    if (pw_process_enter()) {
        pw_process_leave_hugetlb(&caller);
        pw_process.quiet.had_others = true;
        pw_process.huge.hugetlb = 0;
        pw_process_leave();
    }
}

int pw_quiet_create(pw_create_thread *create, pthread_t *thread, const pthread_attr_t *attributes,
                    void *(*start)(void *), void *argument, const void *site) {
    unsigned *threads = counter_of(site, argument);
    struct pool_thread *pooled = threads ? pw_c_malloc(sizeof *pooled) : NULL;
    if (!pooled) {
        unknown_thread_comes();
        return create_twice(create, thread, attributes, start, argument);
    }
    *pooled = (struct pool_thread){start, argument, threads};
    int result = create_twice(create, thread, attributes, run_pool_thread, pooled);
    if (result != 0) {
        pw_c_free(pooled);
    }
    return result;
}
