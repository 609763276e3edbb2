// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back after they lay idle, and all of them at once
// under memory pressure. It exists only while there are warm pages to keep, and is started by a
// free, or with policy general by the next allocation (general.c).

#include "block/keeper.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/collection.h"

#include "os/fault.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <time.h>

#define SMALLEST_POOL_PAGES  (((size_t)8 << 20) / PW_PAGE) // not worth a thread below
#define LIVE_SHARE           8u                            // of what is in use
#define CLOCK_UNITS_A_SECOND 4u                            // of pw_arena_clock: 256 ms
#define SHORTEST_PAUSE       250                           // milliseconds
#define BETWEEN_BATCHES      1       // millisecond: who waits for the lock gets it
#define BETWEEN_WAITS        100000L // nanoseconds
#define MOST_WAITS           20000   // two seconds
#define MOST_AT_ONCE                                                                               \
    ((uint32_t)pw_pages_for(16 << 20)) // the program's threads wait for some milliseconds
#define STACK_SIZE ((size_t)256 << 10) // the C library puts all modules' thread storage there

// With policy general blocks wait on the shelf as well, and pages in segments without any.
static uint64_t idle_pages(const struct pw_process *process) {
    const struct pw_general *general = &process->general;
    uint64_t warm = process->arena.warm_pages;
    return process->gate->general ? warm + pw_shelf_pages(general) + pw_general_idle_pages(general)
                                  : warm;
}

// A batch of what lay idle; *behind: there is more.
static bool decay_now(struct pw_process *process, bool *behind) {
    uint32_t stamp = pw_arena_clock() - process->options.decay_seconds * CLOCK_UNITS_A_SECOND;
    *behind = pw_arena_decay(&process->arena, stamp, MOST_AT_ONCE) >= MOST_AT_ONCE;
    return idle_pages(process) > 0;
}

// Options change at run time: with decay=0, or without a keeper, nothing is left to do.
static bool decay(struct pw_process *process, bool *behind) {
    *behind = false;
    return process->options.decay_seconds > 0 && process->options.keeper &&
           decay_now(process, behind);
}

static bool release_all(struct pw_process *process) {
    struct pw_arena *arena = &process->arena;
    pw_arena_purge(arena, arena->warm_pages);
    PW_COUNT(&process->stats, pressure_releases, 1);
    return idle_pages(process) > 0;
}

// In milliseconds: a quarter of the decay time is the precision. Options change at run time, hence
// the lock.
static int pause_of_now(struct pw_process *process) {
    int quarter = 0;
    if (pw_process_wait()) {
        quarter = (int)(process->options.decay_seconds * 1000 / 4);
        pw_process_leave();
    }
    return quarter < SHORTEST_PAUSE ? SHORTEST_PAUSE : quarter;
}

static void sleep_until_woken(struct pw_process *process, int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long nanoseconds = until.tv_nsec + milliseconds % 1000 * 1000000L;
    until.tv_sec += milliseconds / 1000 + nanoseconds / 1000000000L;
    until.tv_nsec = nanoseconds % 1000000000L;
    if (!pw_process_wait()) {
        return; // to wait for the signal would give up the lock of a fork
    }
    if (!process->keeper_stops) {
        pthread_cond_timedwait(&process->keeper_wake, &process->lock, &until);
    }
    pw_process_leave();
}

static bool has_to_stop(struct pw_process *process) {
    return __atomic_load_n(&process->keeper_stops, __ATOMIC_RELAXED);
}

// True when there was pressure meanwhile. The kernel remembers it until it is asked: to wait for
// both that and whoever ends the keeper would need another descriptor.
static bool wait_for_pressure(struct pw_process *process, struct pw_os_file *pressure,
                              int milliseconds) {
    bool pressed = false;
    while (!pressed && milliseconds > 0 && !has_to_stop(process)) {
        bool watches = pressure->fd >= 0 && milliseconds > SHORTEST_PAUSE;
        int part = watches ? SHORTEST_PAUSE : milliseconds;
        sleep_until_woken(process, part);
        pressed = pressure->fd >= 0 && pw_os_pressure_wait(pressure, 0);
        milliseconds -= part;
    }
    return pressed;
}

static void look_inside(struct pw_process *process, bool pressed) {
    if (pressed) {
        pw_general_trim(&process->general);
    } else {
        pw_general_look_when_due(&process->general);
    }
}

// By the thread itself or by the one that made it, whichever comes first: both know that it exists.
// Until it is counted it is nobody's, and copies are made in full. Who made an earlier one and
// comes so late that a later one is begun counts nothing.
static void count_once(struct pw_process *process, uint32_t number) {
    uint32_t before = number - 1;
    if (__atomic_compare_exchange_n(&process->keepers_counted, &before, number, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        pw_quiet_count(&process->quiet.own, 1);
    }
}

static bool begin(struct pw_process *process) {
    if (!pw_process_wait()) {
        return false;
    }
    process->keeper_thread = pw_os_thread_id();
    pw_process_leave();
    return true;
}

// False at the end, which comes at once in a process that does without us.
static bool keep_once(struct pw_process *process, bool pressed, bool *behind) {
    if (!pw_process_wait()) {
        return false;
    }
    bool more = (pressed ? release_all(process) : decay(process, behind)) && !process->keeper_stops;
    if (!more) {
        pw_os_close(&process->keeper_pressure); // before the next keeper's is opened
    }
    process->keeper_runs = more;
    pw_process_leave();
    return more;
}

static void *keep(void *context) {
    struct pw_process *process = context;
    count_once(process, process->keepers);
    bool more = begin(process), behind = false;
    while (more) {
        bool pressed = wait_for_pressure(process, &process->keeper_pressure,
                                         behind ? BETWEEN_BATCHES : pause_of_now(process));
        more = keep_once(process, pressed, &behind);
        if (process->gate->general && !has_to_stop(process)) { // also while nobody allocates
            look_inside(process, pressed);
        }
    }
    pw_quiet_count(&process->quiet.own, -1);
    return NULL;
}

// Nobody waits for it yet, and whoever ends the keeper wakes only one that has begun.
static void make_waker(struct pw_process *process) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&process->keeper_wake, &attributes);
    pthread_condattr_destroy(&attributes);
}

static bool start_thread(struct pw_process *process) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, saved;
    if (PW_OS_FAULT(PW_POINT_KEEPER) || pthread_attr_init(&attributes) != 0) {
        return false;
    }
    size_t least = (size_t)PTHREAD_STACK_MIN;
    size_t stack = STACK_SIZE > least ? STACK_SIZE : least;
    pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    make_waker(process);
    // The program's signals are the program's threads' business.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    uint32_t number = ++process->keepers; // there is one at a time
    bool started = pthread_create(&thread, &attributes, keep, process) == 0;
    if (started) {
        count_once(process, number);
    } else {
        process->keepers--;
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

PW_UNLOCKED uint64_t pw_keeper_room(const struct pw_process *process) {
    uint64_t share = process->arena.live_pages / LIVE_SHARE;
    return share > SMALLEST_POOL_PAGES ? share : SMALLEST_POOL_PAGES;
}

void pw_keeper_stand_in(struct pw_process *process) {
    bool behind = true;
    while (behind && pw_process_enter()) {
        bool alone = !process->options.keeper || process->keeper_failed;
        behind = false;
        if (alone && !process->keeper_runs && process->options.decay_seconds > 0) {
            decay_now(process, &behind);
        }
        pw_process_leave();
    }
}

// Without a keeper what is too much goes at the release that made it so: nobody may come later.
static void release_surplus(struct pw_process *process) {
    uint64_t warm = process->arena.warm_pages, room = pw_keeper_room(process);
    if (process->options.decay_seconds > 0 && !process->arena.sealed && warm > room) {
        pw_arena_purge(&process->arena, warm - room);
    }
}

// Of this process: in a child that shares our memory it would end with that child, or have it live
// on. Not where all but the caller do without us.
static bool is_wanted(struct pw_process *process) {
    return process->options.keeper && !process->keeper_runs && !process->keeper_failed &&
           process->options.decay_seconds > 0 && idle_pages(process) >= SMALLEST_POOL_PAGES &&
           !__atomic_load_n(&process->orphaned, __ATOMIC_RELAXED) && pw_os_pid() == process->pid;
}

bool pw_keeper_claim(struct pw_process *process) {
    bool claimed = is_wanted(process);
    if (claimed) {
        process->keeper_runs = true; // nobody else starts it
        process->keeper_thread = 0;
    }
    return claimed;
}

bool pw_keeper_is_due(struct pw_process *process, const void *site) {
    if (!process->options.keeper) {
        release_surplus(process);
    }
    if (!is_wanted(process)) {
        return false;
    }
    if (process->gate->general) {
        __atomic_store_n(&process->general.keeper_wanted, true, __ATOMIC_RELAXED);
        return false;
    }
    return !pw_c_library_contains(site, false) && pw_keeper_claim(process);
}

// A file has the lowest number for a moment, until it is moved. A program of one thread that closes
// a number and opens a file under it must not meet that: so the thread of its own that starts the
// keeper opens the file, and the keeper opens none.
static void open_pressure(struct pw_process *process) {
    int cancel = pw_os_cancel_hold();
    process->keeper_pressure = pw_os_pressure_open();
    pw_os_cancel_restore(cancel);
}

void pw_keeper_start(struct pw_process *process) {
    int saved = errno; // the program's free() set it to nothing
    open_pressure(process);
    bool started = start_thread(process);
    if (!started) {
        pw_os_close(&process->keeper_pressure);
    }
    errno = saved;
    if (started || !pw_process_enter()) {
        return;
    }
    // Idle pages then go with the next operations that need room.
    process->keeper_runs = false;
    process->keeper_failed = true;
    PW_COUNT(&process->stats, fallback_keeper, 1);
    pw_process_leave();
}

// --- its end -----------------------------------------------------------------

// The number of the thread that is, or was, the keeper; 0: there is none, or it only *begins.
static int tell_to_stop(struct pw_process *process, bool *begins) {
    int thread = 0;
    *begins = false;
    if (pw_process_wait()) {
        thread = process->keeper_thread;
        *begins = process->keeper_runs && thread == 0;
        __atomic_store_n(&process->keeper_stops, process->keeper_runs, __ATOMIC_RELAXED);
        if (process->keeper_runs && thread) {
            pthread_cond_signal(&process->keeper_wake);
        }
        pw_process_leave();
    }
    return thread;
}

void pw_keeper_end(struct pw_process *process) {
    bool begins = false;
    int thread = tell_to_stop(process, &begins);
    // A number may be another thread's long after the keeper's end: not for ever.
    for (int wait = 0; wait < MOST_WAITS && (begins || (thread && pw_os_thread_lives(thread)));
         wait++) {
        pw_os_sleep_ns(BETWEEN_WAITS);
        if (begins) {
            thread = tell_to_stop(process, &begins);
        }
    }
    if (pw_process_wait()) {
        __atomic_store_n(&process->keeper_stops, false, __ATOMIC_RELAXED);
        pw_process_leave();
    }
}

void pw_keeper_end_for_ever(struct pw_process *process) {
    if (pw_process_wait()) {
        process->keeper_failed = true;
        pw_process_leave();
    }
    pw_keeper_end(process);
}

void pw_keeper_before_exit(struct pw_process *process) {
    // Of this process: children that share our memory end by themselves.
    if (process->arena.base && !process->sealed && pw_os_thread_id() == process->pid) {
        pw_keeper_end_for_ever(process);
    }
}

void pw_keeper_before_cancel(struct pw_process *process, pthread_t thread) {
    bool is_another = process->knows_first_thread && !pthread_equal(thread, process->first_thread);
    if (process->arena.base && !process->sealed && !is_another && pw_os_pid() == process->pid) {
        pw_keeper_end_for_ever(process);
    }
}
