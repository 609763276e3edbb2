// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back after they lay idle, and all of them at once
// under memory pressure. It exists only while there are warm pages to keep, and is started by a
// free, or with policy general by the next allocation (general.c).

#include "front/keeper.h"
#include "front/collection.h"
#include "front/module.h"
#include "front/process.h"

#include "os/fault.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>

#define SMALLEST_POOL_PAGES  (((size_t)8 << 20) / PW_PAGE) // not worth a thread below
#define CLOCK_UNITS_A_SECOND 4u                            // of pw_arena_clock: 256 ms
#define SHORTEST_PAUSE       250                           // milliseconds
#define BETWEEN_BATCHES      1     // millisecond: who waits for the lock gets it
#define MOST_AT_ONCE         4096u // pages: the program's threads wait for some milliseconds
#define STACK_SIZE           ((size_t)256 << 10) // the C library puts all modules' thread storage there

// A batch of what lay idle; *behind: there is more. Options change at run time: with decay=0
// nothing is left to do.
static bool decay(bool *behind) {
    struct pw_arena *arena = &pw_process.arena;
    unsigned seconds = pw_process.options.decay_seconds;
    *behind = false;
    if (seconds == 0) {
        return false;
    }
    uint32_t stamp = pw_arena_clock() - seconds * CLOCK_UNITS_A_SECOND;
    *behind = pw_arena_decay(arena, stamp, MOST_AT_ONCE) >= MOST_AT_ONCE;
    return arena->warm_pages > 0;
}

static bool release_all(void) {
    struct pw_arena *arena = &pw_process.arena;
    pw_arena_purge(arena, arena->warm_pages);
    PW_COUNT(&pw_process.stats, pressure_releases, 1);
    return arena->warm_pages > 0;
}

// In milliseconds: a quarter of the decay time is the precision. Options change at run time, hence
// the lock.
static int pause_of_now(void) {
    pw_process_wait();
    int quarter = (int)(pw_process.options.decay_seconds * 1000 / 4);
    pw_process_leave();
    return quarter < SHORTEST_PAUSE ? SHORTEST_PAUSE : quarter;
}

static void *keep(void *unused) {
    struct pw_os_file pressure = pw_os_pressure_open();
    bool more = true, behind = false;
    pw_quiet_thread_began();
    while (more) {
        int pause = behind ? BETWEEN_BATCHES : pause_of_now();
        bool pressed = pw_os_pressure_wait(&pressure, pause);
        pw_process_wait();
        more = pressed ? release_all() : decay(&behind);
        pw_process.keeper_runs = more;
        pw_process_leave();
        if (pw_gate.general) { // also while nobody allocates
            pw_general_look_when_due(&pw_process.general);
        }
    }
    pw_os_close(&pressure);
    pw_quiet_thread_ends();
    return unused;
}

static bool start_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, saved;
    if (PW_OS_FAULT(PW_SITE_KEEPER) || pthread_attr_init(&attributes) != 0) {
        return false;
    }
    size_t least = (size_t)PTHREAD_STACK_MIN;
    size_t stack = STACK_SIZE > least ? STACK_SIZE : least;
    pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    // The program's signals are the program's threads' business.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    bool started = pthread_create(&thread, &attributes, keep, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

static bool is_wanted(void) {
    return !pw_process.keeper_runs && !pw_process.keeper_failed &&
           pw_process.options.decay_seconds > 0 &&
           pw_process.arena.warm_pages >= SMALLEST_POOL_PAGES;
}

bool pw_keeper_claim(void) {
    bool claimed = is_wanted();
    pw_process.keeper_runs |= claimed; // nobody else starts it
    return claimed;
}

bool pw_keeper_is_due(const void *site) {
    if (!is_wanted()) {
        return false;
    }
    if (pw_gate.general) {
        __atomic_store_n(&pw_process.general.keeper_wanted, true, __ATOMIC_RELAXED);
        return false;
    }
    return !pw_module_is_c_library(site, false) && pw_keeper_claim();
}

void pw_keeper_start(void) {
    int saved = errno; // the program's free() set it to nothing
    bool started = start_thread();
    errno = saved;
    if (started || !pw_process_enter()) {
        return;
    }
    // Idle pages then go with the next operations that need room.
    pw_process.keeper_runs = false;
    pw_process.keeper_failed = true;
    PW_COUNT(&pw_process.stats, fallback_keeper, 1);
    pw_process_leave();
}
