// SPDX-License-Identifier: MIT
#include "front/quiet.h"

#include "front/c_library.h"
#include "front/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>

// --- counting ----------------------------------------------------------------

// This thread is one of a pool: its own copies are those of work that was handed over.
static __thread bool in_pool __attribute__((tls_model("initial-exec")));

// A thread counts itself when it runs, and no longer when it is about to end, so that it never
// stands for another one. Whoever looks meanwhile sees the number of changes differ.
static void count(unsigned *threads, int change) {
    __atomic_fetch_add(&pw_process.quiet.changes, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(threads, (unsigned)change, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&pw_process.quiet.changes, 1, __ATOMIC_SEQ_CST);
}

void pw_quiet_thread_began(void) {
    count(&pw_process.quiet.own, 1);
}

void pw_quiet_thread_ends(void) {
    count(&pw_process.quiet.own, -1);
}

void pw_quiet_before_fork(void) {
    static const struct pw_caller unknown = {.without_rings = true};
    pw_process.quiet.forks_quietly = pw_is_quiet(&unknown, NULL);
}

void pw_quiet_after_fork_parent(void) {
    pw_process.quiet.forks_quietly = false;
}

void pw_quiet_after_fork(void) {
    struct pw_quiet *quiet = &pw_process.quiet;
    quiet->own = quiet->timers = quiet->blas = 0;
    for (unsigned i = 0; i < PW_OPENMP_RUNTIMES; i++) {
        quiet->openmp[i].threads = 0;
    }
    memset(quiet->earlier, 0, sizeof quiet->earlier);
    quiet->loader_is_lost |= !quiet->forks_quietly;
    quiet->forks_quietly = false;
    in_pool = false;
}

void pw_quiet_others_write(void) {
    __atomic_store_n(&pw_process.quiet.others_write, true, __ATOMIC_RELAXED);
}

// --- asking ------------------------------------------------------------------

// Libraries whose use is to have the kernel, or a device, write to memory by itself.
static int brings_writers(struct dl_phdr_info *info, size_t size, void *found) {
    static const char *const names[] = {"liburing", "libaio.so", "libibverbs.so", "librdmacm.so"};
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *(bool *)found |= strncmp(name, names[i], strlen(names[i])) == 0;
    }
    return *(bool *)found;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads) {
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

static bool has_work(const struct pw_openmp *runtime) {
    return runtime->level() > 0 || runtime->num_teams() > 1;
}

// Threads of pools without work. A signal that is blocked may be one that is being handled, and may
// have interrupted whoever gave a pool work.
static unsigned idle_threads(const struct pw_quiet *quiet, const struct pw_caller *caller,
                             bool handling) {
    unsigned idle = caller->in_blas || handling ? 0 : quiet->blas;
    for (unsigned i = 0; i < PW_OPENMP_RUNTIMES; i++) {
        const struct pw_openmp *runtime = &quiet->openmp[i];
        unsigned threads = __atomic_load_n(&runtime->threads, __ATOMIC_SEQ_CST);
        idle += threads && !has_work(runtime) ? threads : 0;
    }
    return idle;
}

static unsigned earlier_timers(const struct pw_quiet *quiet) {
    unsigned threads = 0;
    for (unsigned i = 0; i < PW_EARLIER_THREADS; i++) {
        threads += pw_earlier_runs(&quiet->earlier[i]);
    }
    return threads;
}

static bool threads_are_known(const struct pw_caller *caller, bool handling) {
    const struct pw_quiet *quiet = &pw_process.quiet;
    unsigned changes = __atomic_load_n(&quiet->changes, __ATOMIC_SEQ_CST);
    unsigned earlier = earlier_timers(quiet);
    unsigned known = 1 + earlier + __atomic_load_n(&quiet->own, __ATOMIC_SEQ_CST) +
                     __atomic_load_n(&quiet->timers, __ATOMIC_SEQ_CST) +
                     idle_threads(quiet, caller, handling);
    unsigned threads = pw_os_thread_count();
    return threads > 0 && threads <= known && changes % 2 == 0 &&
           earlier == earlier_timers(quiet) &&
           changes == __atomic_load_n(&quiet->changes, __ATOMIC_SEQ_CST);
}

// A child of vfork runs in our memory under a number of its own.
static bool is_own_process(void) {
    return pw_os_pid() == pw_process.pid && !in_pool;
}

// What was found once stays so. The loader's lock is taken only while there is no thread that is
// not known: one that goes through the modules with a function of its own holds it, and may wait
// for what this thread does next.
void pw_quiet_look(struct pw_caller *caller) {
    struct pw_quiet *quiet = &pw_process.quiet;
    unsigned long long loads = 0;
    if (__atomic_load_n(&quiet->loader_is_lost, __ATOMIC_RELAXED) ||
        __atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED) || // to count threads is a call
        pw_process_is_new()) {
        return;
    }
    caller->looked = true;
    if (!is_own_process() || !threads_are_known(caller, false)) {
        return;
    }
    dl_iterate_phdr(count_loads, &loads);
    if (__atomic_load_n(&quiet->loads, __ATOMIC_ACQUIRE) != loads) {
        bool found = false;
        dl_iterate_phdr(brings_writers, &found);
        if (found) {
            pw_quiet_others_write();
        }
        __atomic_store_n(&quiet->loads, loads, __ATOMIC_RELEASE);
    }
    caller->without_rings = !__atomic_load_n(&quiet->others_write, __ATOMIC_RELAXED);
}

bool pw_is_quiet(const struct pw_caller *caller, const struct pw_os_signals *held) {
    const struct pw_quiet *quiet = &pw_process.quiet;
    bool may_handle = (held ? held->mask[0] : pw_os_signals_blocked()) != 0;
    bool others = !caller->without_rings || __atomic_load_n(&quiet->others_write, __ATOMIC_RELAXED);
    return is_own_process() && !others && threads_are_known(caller, may_handle);
}

// --- threads of pools --------------------------------------------------------

struct pool_thread {
    void *(*start)(void *);
    void *argument;
    unsigned *threads; // where it counts
};

static void pool_thread_ends(void *threads) {
    count(threads, -1);
}

static void *run_pool_thread(void *argument) {
    struct pool_thread thread = *(struct pool_thread *)argument;
    struct pw_os_signals for_good;
    void *result = NULL;
    pw_c_free(argument);
    pw_os_signals_block(&for_good);
    pw_os_cancel_restore(for_good.cancel);
    in_pool = true;
    count(thread.threads, 1);
    pthread_cleanup_push(pool_thread_ends, thread.threads);
    result = thread.start(thread.argument);
    pthread_cleanup_pop(1);
    return result;
}

// The entry of a copy of libgomp. NULL: it does not tell when it works, or there are too many.
static struct pw_openmp *openmp_runtime(const void *site) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *path = NULL;
    const void *module = pw_module_base(site, &path);
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

// Where a thread that `site` starts counts; NULL: it is not known to be quiet at any time. Threads
// of OpenMP run the program's own code, which would find signals blocked: only where blocks may be
// shared at all.
static unsigned *counter_of(const void *site) {
    struct pw_quiet *quiet = &pw_process.quiet;
    struct pw_openmp *runtime = NULL;
    switch (pw_pool_at(site)) {
    case PW_POOL_TIMER:
        return &quiet->timers;
    case PW_POOL_BLAS:
        return &quiet->blas;
    case PW_POOL_OPENMP:
        if (pw_process.serves_r || pw_process.options.modules == PW_MODULES_ALL) {
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
    if (result == EAGAIN && pw_block_relieve()) { // a stack is a mapping or two
        result = create(thread, attributes, start, argument);
    }
    return result;
}

int pw_quiet_create(pw_create_thread *create, pthread_t *thread, const pthread_attr_t *attributes,
                    void *(*start)(void *), void *argument, const void *site) {
    unsigned *threads = counter_of(site);
    struct pool_thread *pooled = threads ? pw_c_malloc(sizeof *pooled) : NULL;
    if (!pooled) {
        pw_process_thread_comes();
        return create_twice(create, thread, attributes, start, argument);
    }
    *pooled = (struct pool_thread){start, argument, threads};
    int result = create_twice(create, thread, attributes, run_pool_thread, pooled);
    if (result != 0) {
        pw_c_free(pooled);
    }
    return result;
}
