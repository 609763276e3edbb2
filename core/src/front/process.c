// SPDX-License-Identifier: MIT
#include "front/process.h"
#include "front/c_library.h"
#include "front/general.h"
#include "front/module.h"
#include "front/relief.h"
#include "front/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SMALLEST_COPY        ((size_t)64 << 10)
#define SMALLEST_VECTOR      ((size_t)8 << 10) // two pages
#define SMALLEST_COPY_ALWAYS ((size_t)4 << 10) // the papers' rule: every whole page
#define FORK_PATIENCE        50                // milliseconds that a thread waits for a fork
#define PATIENCE             10 // and for a thread that may have been stopped in our own work

struct pw_process pw_process = {.lock = PTHREAD_MUTEX_INITIALIZER};
struct pw_gate pw_gate = {.threshold = SIZE_MAX, .copy_threshold = SIZE_MAX};

static __thread bool inside __attribute__((tls_model("initial-exec")));
// This thread holds the lock for a fork: the tables are whole, and handlers of other libraries may
// allocate and free meanwhile.
static __thread bool forking __attribute__((tls_model("initial-exec")));
static __thread bool holds_streams __attribute__((tls_model("initial-exec")));
static __thread int cancel_state __attribute__((tls_model("initial-exec"))); // of who is inside

static void notice_fork(void) {
    if (pw_process.fork_marker) {
        __atomic_store_n(pw_process.fork_marker, 1, __ATOMIC_RELAXED);
    }
    if (!pw_process.sealed) {
        pw_process.pid = pw_os_pid();
    }
    pw_process.keeper_runs = pw_process.keeper_failed = pw_process.keeper_stops = false;
    pw_process.keeper_thread = 0;
    pw_quiet_after_fork();
    pw_stats_after_fork(&pw_process.stats);
    pw_share_after_fork(&pw_process.share);
    pw_relief_forget();
}

bool pw_process_is_new(void) {
    return pw_process.fork_marker ? *pw_process.fork_marker == 0 : pw_process.pid != pw_os_pid();
}

// After _Fork or clone, which run no handlers, a thread that the child does not have may hold the
// lock for ever, with the tables half-changed. Such a child does without Pagewise: its blocks stay
// what they are, and are never given back.
static bool lock_is_orphaned(void) {
    if (__atomic_load_n(&pw_process.orphaned, __ATOMIC_RELAXED)) {
        return true;
    }
    uint32_t *marker = pw_process.fork_marker;
    if (!marker || __atomic_load_n(&marker[0], __ATOMIC_RELAXED) != 0 ||
        __atomic_exchange_n(&marker[1], 1, __ATOMIC_RELAXED) != 0) {
        return false; // not a new process, or somebody else has looked
    }
    if (pthread_mutex_trylock(&pw_process.lock) == 0) {
        pthread_mutex_unlock(&pw_process.lock);
        return false;
    }
    __atomic_store_n(&pw_process.orphaned, true, __ATOMIC_RELAXED);
    pthread_mutex_init(&pw_process.lock, NULL); // for forks of this child's own
    return true;
}

// Odd: a fork's handlers run, with the lock held. They differ from fork to fork.
static uint32_t fork_of_now(void) {
    return __atomic_load_n(&pw_process.fork_epoch, __ATOMIC_RELAXED);
}

static bool wait_for_lock(unsigned milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    long nanoseconds = until.tv_nsec + (long)milliseconds * 1000000;
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    return pthread_mutex_timedlock(&pw_process.lock, &until) == 0;
}

// A handler that was registered before ours runs after it, and may wait for a thread that waits for
// us: switching on in a running R comes late. Such a thread does without us until that fork is
// over.
static bool take_lock(void) {
    while (pthread_mutex_trylock(&pw_process.lock) != 0) {
        uint32_t fork = fork_of_now();
        bool stalls = __atomic_load_n(&pw_process.fork_stalled, __ATOMIC_RELAXED) == fork;
        if (fork % 2 && stalls) {
            return false;
        }
        if (wait_for_lock(FORK_PATIENCE)) {
            return true;
        }
        if (fork % 2 && fork_of_now() == fork) {
            __atomic_store_n(&pw_process.fork_stalled, fork, __ATOMIC_RELAXED);
        }
    }
    return true;
}

static bool enter(bool (*take)(void)) {
    if (inside || (!forking && lock_is_orphaned())) {
        return false;
    }
    inside = true;
    cancel_state = pw_os_cancel_hold();
    if (!forking && !take()) {
        inside = false;
        pw_os_cancel_restore(cancel_state);
        return false;
    }
    if (__atomic_load_n(&pw_process.stalled, __ATOMIC_RELAXED)) {
        __atomic_store_n(&pw_process.stalled, false, __ATOMIC_RELAXED);
    }
    if (pw_process_is_new()) {
        notice_fork();
    }
    return true;
}

bool pw_process_enter(void) {
    return enter(take_lock);
}

static bool take_lock_soon(void) {
    if (pthread_mutex_trylock(&pw_process.lock) == 0) {
        return true;
    }
    if (__atomic_load_n(&pw_process.stalled, __ATOMIC_RELAXED)) {
        return false;
    }
    bool taken = wait_for_lock(PATIENCE);
    if (!taken) {
        __atomic_store_n(&pw_process.stalled, true, __ATOMIC_RELAXED);
    }
    return taken;
}

bool pw_process_enter_soon(void) {
    return enter(take_lock_soon);
}

static bool take_lock_at_last(void) {
    return pthread_mutex_lock(&pw_process.lock) == 0;
}

bool pw_process_wait(void) {
    return enter(take_lock_at_last);
}

void pw_process_leave(void) {
    size_t span = (size_t)pw_process.arena.end * PW_PAGE;
    __atomic_store_n(&pw_gate.span, span, __ATOMIC_RELAXED);
    if (!forking) {
        pthread_mutex_unlock(&pw_process.lock);
    }
    inside = false;
    pw_os_cancel_restore(cancel_state);
}

// Pages are replaced for it, which must not lose another thread's store: where one could write,
// blocks stay on the pool's pages, and a fork's child that writes one needs another.
void pw_process_leave_hugetlb(void) {
    static const struct pw_caller unknown = {.without_rings = true};
    if (pw_process.arena.hugetlb_blocks > 0 && !pw_process.sealed && pw_is_quiet(&unknown, NULL)) {
        struct pw_os_signals signals;
        pw_os_signals_block(&signals);
        pw_huge_before_fork(&pw_process.arena);
        pw_os_signals_restore(&signals);
    }
}

void pw_process_thread_comes(void) {
    if (pw_process.huge.hugetlb && pw_process_enter()) {
        pw_process_leave_hugetlb();
        pw_process.quiet.had_others = true;
        pw_process.huge.hugetlb = 0;
        pw_process_leave();
    }
}

// The C library's lock of its list of streams. Its fork takes it when our handler has run. Were
// ours taken first, a thread that flushes all streams could hold that one, and wait for a stream
// whose owner waits for us to enlarge its buffer. The lock is recursive.
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

// Only where the C library's own streams get their buffers from us, and our handler is the last to
// run: others may wait for threads that use streams.
static void hold_streams(void) {
    if (pw_gate.preloaded && _IO_list_lock && _IO_list_unlock && _IO_list_resetlock) {
        _IO_list_lock();
        holds_streams = true;
    }
}

static void hold_others(bool waits) {
    if (waits) {
        hold_streams();
    }
    if (pw_gate.general) {
        pw_general_before_fork(&pw_process.general);
    }
}

static void release_others(void) {
    if (pw_gate.general) {
        pw_general_after_fork_parent(&pw_process.general);
    }
    if (holds_streams) {
        holds_streams = false;
        _IO_list_unlock();
    }
}

// A fork in another thread must not catch our tables half-changed.
static void before_fork(void) {
    if (!pw_process.arena.base) {
        return; // nothing is ours
    }
    // Not for a fork out of a signal handler in the middle of our own work, whose waiting would be
    // for ever, nor of a child that does without us, whose tables are not whole.
    bool waits = !inside && !lock_is_orphaned();
    hold_others(waits);
    while (waits && !wait_for_lock(FORK_PATIENCE)) {
        release_others(); // who has it may be forking out of a signal handler, and need these
        hold_others(waits);
    }
    if (waits) {
        forking = true;
        __atomic_add_fetch(&pw_process.fork_epoch, 1, __ATOMIC_RELAXED);
        pw_process_leave_hugetlb();
        if (!pw_process.sealed) {
            pw_quiet_before_fork();
        }
    }
}

static void end_of_fork(void) {
    if (forking) { // this thread took the lock before
        forking = false;
        __atomic_add_fetch(&pw_process.fork_epoch, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&pw_process.lock);
    }
}

static void after_fork_parent(void) {
    if (forking) {
        pw_quiet_after_fork_parent();
    }
    end_of_fork();
    release_others();
}

static void after_fork_child(void) {
    end_of_fork();
    if (pw_process.started && pw_process.arena.base && pw_process_is_new()) {
        notice_fork();
    }
    if (pw_gate.general) {
        pw_general_after_fork_child(&pw_process.general);
    }
    if (holds_streams) {
        holds_streams = false;
        _IO_list_resetlock(); // a child with one thread: nobody holds it
    }
}

void pw_process_watch_forks(void) {
    if (!__atomic_exchange_n(&pw_process.watches_forks, true, __ATOMIC_RELAXED)) {
        pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    }
}

// A mistake in the options is said by the first process that meets it, not by each of its children.
static void warn(const char *problem, const char *item) {
    static bool here;
    if (here || !getenv("PAGEWISE_WARNED")) {
        here = true;
        setenv("PAGEWISE_WARNED", "1", 1);
        pw_os_warn(problem, item);
    }
}

// Vectors of R between two pages and the default are a quarter of the memory of some programs: the
// C library's heap keeps what they leave when they die, for good where anything behind them lives.
// Other programs have many such blocks in many threads, and one lock is not for them.
static size_t threshold_of(const struct pw_options *options) {
    bool lowered =
        pw_process.serves_r && options->policy == PW_POLICY_AUTO && !options->threshold_given;
    return lowered ? SMALLEST_VECTOR : options->threshold;
}

static void open_gate(const struct pw_options *options) {
    pw_gate.base = (uintptr_t)pw_process.arena.base;
    pw_gate.copy_threshold =
        options->share == PW_SHARE_ALWAYS ? SMALLEST_COPY_ALWAYS : SMALLEST_COPY;
    if (options->policy == PW_POLICY_GENERAL) {
        pw_gate.copy_threshold = SIZE_MAX; // other programs' copies stay theirs
    }
    pw_gate.threshold = threshold_of(options);
}

static bool start_arena(const struct pw_options *options) {
    if (pw_process.arena.base) {
        return true;
    }
    if (!pw_arena_start(&pw_process.arena, &pw_process.stats, options->slack_percent)) {
        return false;
    }
    pw_process.first_break = pw_os_program_break();
    pw_process.fork_marker = pw_os_fork_marker();
    if (pw_process.fork_marker) {
        *pw_process.fork_marker = 1;
    }
    pw_share_start(&pw_process.share, &pw_process.arena);
    pw_process_watch_forks();
    return true;
}

// Without limits of their own, `on` serves blocks that surely gain, `always` the slides' range.
static void set_huge(const struct pw_options *options) {
    static const uint8_t shifts[PW_PAGES_1G + 1] = {[PW_PAGES_2M] = 21, [PW_PAGES_1G] = 30};
    bool always = options->huge == PW_HUGE_ALWAYS;
    size_t smallest = always ? (size_t)1 << 20 : PW_HUGE_SMALLEST_PAGES * PW_PAGE;
    size_t largest = options->huge_max ? options->huge_max : SIZE_MAX;
    smallest = options->huge_min ? options->huge_min : smallest;
    pw_process.huge = (struct pw_huge){
        .on = options->huge != PW_HUGE_OFF,
        .always = always,
        .ordinary = options->pages == PW_PAGES_ORDINARY,
        .lock = options->lock,
        .hugetlb = pw_process.quiet.had_others ? 0 : shifts[options->pages],
        .smallest = smallest / PW_PAGE,
        .largest = largest / PW_PAGE + 1, // the header page
    };
}

static bool serve(const struct pw_options *options) {
    if (!start_arena(options)) {
        return false;
    }
    pw_process.arena.slack_percent = options->slack_percent;
    pw_share_use_call(&pw_process.share, options->mmapcopy && options->share != PW_SHARE_OFF);
    set_huge(options);
    open_gate(options);
    return true;
}

static void ignore(const char *problem, const char *item) {
    (void)problem;
    (void)item;
}

// Nothing is done then, nor said: a word on standard error is a system call, too.
static bool is_forbidden(const char *text) {
    struct pw_options *options = &pw_process.options;
    pw_options_read(options, text, PW_POLICY_AUTO, ignore);
    if (!pw_sandbox_forbids(options)) {
        return false;
    }
    unsigned filters = options->filters;
    pw_options_read(options, "policy=plain", PW_POLICY_PLAIN, ignore);
    options->filters = filters;
    pw_stats_name(&pw_process.stats, pw_policy_name(PW_POLICY_PLAIN));
    pw_stats_seal(&pw_process.stats);
    PW_COUNT(&pw_process.stats, fallback_seccomp, 1);
    pw_process.sealed = true;
    return true;
}

static bool start(const char *text) {
    struct pw_options *options = &pw_process.options;
    pw_stats_start(&pw_process.stats);
    if (is_forbidden(text)) {
        return false;
    }
    pw_options_read(options, text, pw_gate.serves_all ? PW_POLICY_GENERAL : PW_POLICY_AUTO, warn);
    const char *policy = pw_policy_name(options->policy);
    if (!pw_stats_publish(&pw_process.stats, options->statistics, policy)) {
        pw_os_warn("statistics stay in the process: cannot create a file in ", options->statistics);
    }
    PW_COUNT(&pw_process.stats, bookkeeping_bytes, sizeof pw_process.predictor);
    pw_process.pid = pw_os_pid();
    if (pw_behind.is_other && !pw_gate.serves_all) {
        // The program's own choice, whose other functions would not know blocks of ours.
        PW_COUNT(&pw_process.stats, fallback_allocator, 1);
        return false;
    }
    switch (options->policy) {
    case PW_POLICY_PLAIN:
        return false;
    case PW_POLICY_KSM:
    case PW_POLICY_KSM_AGGRESSIVE:
        pw_gate.mergeable = true;
        pw_gate.map_directly = true;
        return false;
    case PW_POLICY_DIRECT:
        pw_gate.map_directly = true;
        return false;
    default:
        break;
    }
    if ((options->policy == PW_POLICY_GENERAL) != pw_gate.serves_all) {
        warn("blocks are left to the C library: policy=general, and no other that serves blocks, "
             "is for "
             "libpagewise-general.so (pagewise run preloads the right one): policy=",
             policy);
        return false;
    }
    return serve(options) && (options->policy != PW_POLICY_GENERAL || pw_general_open(options));
}

bool pw_start(const char *text) {
    pw_os_find_functions();
    pw_module_find_c_library();
    pw_behind_decide();
    pthread_mutex_lock(&pw_process.lock);
    if (!pw_process.started) {
        // secure_getenv: a setuid program takes no orders from its caller's environment.
        start(text ? text : secure_getenv("PAGEWISE_OPTIONS"));
        pw_process.started = true;
    }
    pthread_mutex_unlock(&pw_process.lock);
    return pw_is_on();
}

void pw_process_found_r(void) {
    pw_process.serves_r = true;
    if (pw_is_on() && pw_process_enter()) {
        open_gate(&pw_process.options);
        pw_process_leave();
    }
}

static bool has_arena(enum pw_policy policy) {
    return policy == PW_POLICY_SHARE || policy == PW_POLICY_HUGE || policy == PW_POLICY_AUTO;
}

// Whoever asks at run time is told of a mistake instead of warned of it.
static char refused[128];

static void refuse(const char *problem, const char *item) {
    (void)problem;
    snprintf(refused, sizeof refused, "the option is not understood: %s", item);
}

// The statistics block of a running heap stays where it is.
static bool change_options(struct pw_options *options) {
    if (!serve(options)) {
        return false;
    }
    memcpy(options->statistics, pw_process.options.statistics, sizeof options->statistics);
    pw_process.options = *options;
    pw_relief_forget();
    pw_stats_name(&pw_process.stats, pw_policy_name(options->policy));
    return true;
}

const char *pw_heap_switch_on(const char *text) {
    struct pw_options options;
    *refused = 0;
    pw_options_read(&options, text, PW_POLICY_AUTO, refuse);
    if (*refused) {
        return refused;
    }
    if (pw_gate.serves_all && !pw_gate.general) {
        return "all memory is the C library's since the program's start (policy=plain, or no "
               "address space), and stays so";
    }
    if (pw_behind.is_other && !pw_gate.serves_all) {
        return "another library's malloc serves this program (linked, or preloaded)";
    }
    if (pw_process.sealed) {
        return "a seccomp filter came into force, which may end the process for a system call: all "
               "is "
               "left to the C library from then on";
    }
    if (!pw_process.started && pw_sandbox_forbids(&options)) {
        return "a seccomp filter is in force, which may end the process for a system call: "
               "seccomp=ignore takes the risk";
    }
    if (!has_arena(options.policy)) {
        return "this policy works from a program's start only: pagewise run --policy";
    }
    if (!pw_process.started) {
        pw_start(text);
    }
    bool on = false;
    if (pw_process_enter()) {
        on = change_options(&options);
        pw_process_leave();
    }
    return on ? NULL : "no address space for blocks";
}

void pw_heap_switch_off(void) {
    pw_gate.threshold = pw_gate.copy_threshold = SIZE_MAX;
    if (pw_process.arena.base && pw_process_enter()) {
        pw_process.options.pool = false;
        pw_arena_purge(&pw_process.arena, pw_process.arena.warm_pages);
        pw_stats_name(&pw_process.stats, pw_policy_name(PW_POLICY_PLAIN));
        pw_process_leave();
    }
}

bool pw_is_on(void) {
    return pw_gate.threshold != SIZE_MAX && !__atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED);
}
