// SPDX-License-Identifier: MIT
#include "process/quiet.h"

#include "process/c_library.h"
#include "process/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

// --- counting ----------------------------------------------------------------

// This thread is one of a pool: its own copies are those of work that was handed over.
static __thread bool in_pool __attribute__((tls_model("initial-exec")));

// Whoever looks meanwhile sees the number of changes differ.
void pw_quiet_count(unsigned *threads, int change) {
    __atomic_fetch_add(&pw_process.quiet.changes, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(threads, (unsigned)change, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&pw_process.quiet.changes, 1, __ATOMIC_SEQ_CST);
}

void pw_quiet_in_pool(void) {
    in_pool = true;
}

void pw_quiet_before_fork(void) {
    static const struct pw_caller unknown = {.without_rings = true};
    pw_process.quiet.forks_quietly = pw_is_quiet(&unknown);
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

void pw_quiet_clones(unsigned long flags) {
    if ((flags & CLONE_VM) && !(flags & (CLONE_THREAD | CLONE_VFORK))) {
        pw_quiet_others_write();
    }
}

// --- asking ------------------------------------------------------------------

// Libraries whose use is to have the kernel, a device or another process write to memory by itself.
// Wheels bring them under names with a hash: libaio-2e0a9f1c.so.1.
static int brings_writers(struct dl_phdr_info *info, size_t size, void *found) {
    static const char *const names[] = {
        "liburing",    "libaio",           "libibverbs",   "librdmacm", "libfabric",  "libucp",
        "libpsm",      "libcxi",           "libxpmem",     "libmpi",    "libcuda.",   "libcuda-",
        "libamdhip64", "libhsa-runtime64", "libze_loader", "libOpenCL", "librte_eal", "libxdp"};
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

bool pw_is_quiet(const struct pw_caller *caller) {
    const struct pw_os_signals *held = caller->held;
    const struct pw_quiet *quiet = &pw_process.quiet;
    bool may_handle = (held ? held->mask[0] : pw_os_signals_blocked()) != 0;
    bool others = !caller->without_rings || __atomic_load_n(&quiet->others_write, __ATOMIC_RELAXED);
    return is_own_process() && !others && threads_are_known(caller, may_handle);
}
