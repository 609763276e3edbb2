// SPDX-License-Identifier: MIT
#include "process/lock.h"
#include "process/large_pages.h"
#include "process/quiet.h"
#include "process/state.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define FORK_PATIENCE 50 // milliseconds that a thread waits for a fork
#define PATIENCE      10 // and for a thread that may have been stopped in our own work

static __thread bool inside __attribute__((tls_model("initial-exec")));
static __thread bool holds __attribute__((tls_model("initial-exec"))); // the lock, and is at work
// This thread holds the lock for a fork: the tables are whole, and handlers of other libraries may
// allocate and free meanwhile.
static __thread bool forking __attribute__((tls_model("initial-exec")));
static __thread bool holds_streams __attribute__((tls_model("initial-exec")));
// In a child that a handler forked while this thread had the lock: others do without us until it is
// given back.
static __thread bool keeps_others_out __attribute__((tls_model("initial-exec")));
// Forks that this thread is in, but such as take no lock. A signal handler may fork in the middle
// of another fork: such an inner one takes and releases nothing. What is held stays held for the
// outer one, which goes on when the handler returns: in the parent, and in the inner one's child.
static __thread unsigned forks __attribute__((tls_model("initial-exec")));
static __thread int cancel_state __attribute__((tls_model("initial-exec"))); // of who is inside

static void notice_fork(void) {
    if (pw_process.fork_marker) {
        __atomic_store_n(pw_process.fork_marker, 1, __ATOMIC_RELAXED);
    }
    if (!pw_process.sealed) {
        pw_process_note_identity();
    }
    pw_process.keeper_runs = pw_process.keeper_failed = pw_process.keeper_stops = false;
    pw_process.keeper_thread = 0;
    pw_process.locks_all = false;                    // mlockall is not inherited
    pw_process.keepers_counted = pw_process.keepers; // one that was begun meanwhile is not here
    // Others went on while the kernel copied page after page: the list may be torn. What is on it
    // is lost to the child, as the caches of threads that it does not have.
    pw_process.put_off = 0;
    pw_os_close(&pw_process.keeper_pressure);
    pw_quiet_after_fork();
    pw_stats_after_fork(&pw_process.stats);
    pw_share_after_fork(&pw_process.share);
    pw_process_forget_collections();
    pw_freeze_forked(&pw_process.freezing);
}

// A handler that runs meanwhile finds this thread in the middle of our own work.
static void begin_inside(void) {
    inside = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void end_inside(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    inside = false;
}

static bool is_orphaned(void) {
    return __atomic_load_n(&pw_process.orphaned, __ATOMIC_RELAXED);
}

static void give_lock(void) {
    pthread_mutex_unlock(&pw_process.lock);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (keeps_others_out) {
        keeps_others_out = false;
        __atomic_store_n(&pw_process.orphaned, false, __ATOMIC_RELAXED);
    }
}

static void lose_lock(void) {
    __atomic_store_n(&pw_process.orphaned, true, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    keeps_others_out = false;
    pthread_mutex_init(&pw_process.lock, NULL); // for forks of this child's own
}

// Not where a signal handler forked while this thread waited for somebody in the tables, and this
// is the child.
static bool tables_are_whole(void) {
    return !is_orphaned() || keeps_others_out;
}

// A thread that this new process does not have may hold the lock.
static bool find_lock_lost(void) {
    bool was_inside = inside;
    begin_inside();
    bool lost = pthread_mutex_trylock(&pw_process.lock) != 0;
    if (lost) {
        lose_lock();
    } else {
        give_lock();
    }
    if (!was_inside) {
        end_inside();
    }
    return lost;
}

// After _Fork or clone, which run no handlers, a thread that the child does not have may hold the
// lock for ever, with the tables half-changed. Such a child does without Pagewise: its blocks stay
// what they are, and are never given back.
static bool lock_is_orphaned(void) {
    if (is_orphaned()) {
        return true;
    }
    uint32_t *marker = pw_process.fork_marker;
    if (!marker || __atomic_load_n(&marker[0], __ATOMIC_RELAXED) != 0 ||
        __atomic_exchange_n(&marker[1], 1, __ATOMIC_RELAXED) != 0) {
        return false; // not a new process, or somebody else has looked
    }
    return find_lock_lost();
}

// Odd: a fork's handlers run, with the lock held. They differ from fork to fork.
static uint32_t fork_of_now(void) {
    return __atomic_load_n(&pw_process.fork_epoch, __ATOMIC_RELAXED);
}

// By a clock that nobody can set, where the C library has it (2.30). ThreadSanitizer does not know
// it, and would take the lock for nobody's.
#ifdef __SANITIZE_THREAD__
#define LOCK_BY_CLOCK ((int (*)(pthread_mutex_t *, clockid_t, const struct timespec *))NULL)
#else
extern int pthread_mutex_clocklock(pthread_mutex_t *, clockid_t, const struct timespec *)
    __attribute__((weak));
#define LOCK_BY_CLOCK (&pthread_mutex_clocklock)
#endif

static bool wait_for_lock(unsigned milliseconds) {
    struct timespec until;
    clock_gettime(LOCK_BY_CLOCK ? CLOCK_MONOTONIC : CLOCK_REALTIME, &until);
    long nanoseconds = until.tv_nsec + (long)milliseconds * 1000000;
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    return (LOCK_BY_CLOCK ? LOCK_BY_CLOCK(&pw_process.lock, CLOCK_MONOTONIC, &until)
                          : pthread_mutex_timedlock(&pw_process.lock, &until)) == 0;
}

// A handler that was registered before ours runs after it, and may wait for a thread that waits for
// us: switching on in a running R comes late. Such a thread does without us until that fork is
// over.
static bool take_lock(void) {
    while (pthread_mutex_trylock(&pw_process.lock) != 0) {
        if (lock_is_orphaned()) { // a signal handler called _Fork or clone: this is the child
            return false;
        }
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

static bool take_whole(bool (*take)(void)) {
    if (!take()) {
        return false;
    }
    holds = tables_are_whole();
    if (!holds) {
        give_lock();
    }
    return holds;
}

static bool enter(bool (*take)(void)) {
    if (inside) {
        return false;
    }
    begin_inside();
    if (forking ? !tables_are_whole() : lock_is_orphaned()) {
        end_inside();
        return false;
    }
    cancel_state = pw_os_cancel_hold();
    if (!forking && !take_whole(take)) {
        int state = cancel_state;
        end_inside();
        pw_os_cancel_restore(state);
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

// In a sandbox no signal is held back: it is a system call, which may end the program.
static void hold_signals(struct pw_os_signals *held) {
    held->is_held = !__atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED);
    if (held->is_held) {
        pw_os_signals_block(held);
    }
}

static void release_signals(const struct pw_os_signals *held) {
    if (held->is_held) {
        pw_os_signals_restore(held);
    }
}

static bool enter_held(const struct pw_os_signals *held) {
    bool entered = enter(take_lock_soon);
    if (!entered) {
        release_signals(held);
    }
    return entered;
}

bool pw_process_enter_soon(struct pw_os_signals *held) {
    hold_signals(held);
    return enter_held(held);
}

void pw_process_leave_soon(const struct pw_os_signals *held) {
    pw_process_leave();
    release_signals(held);
}

bool pw_process_look_and_enter(struct pw_caller *caller, struct pw_os_signals *held) {
    hold_signals(held);
    pw_quiet_look(caller);
    caller->held = held->is_held ? held : NULL;
    return enter_held(held);
}

static bool take_lock_at_last(void) {
    while (!wait_for_lock(FORK_PATIENCE)) {
        if (lock_is_orphaned()) {
            return false;
        }
    }
    return true;
}

bool pw_process_wait(void) {
    return enter(take_lock_at_last);
}

static void leave(void) {
    holds = false;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    give_lock();
}

void pw_process_leave(void) {
    size_t span = (size_t)pw_process.arena.end * PW_PAGE;
    __atomic_store_n(&pw_gate.span, span, __ATOMIC_RELAXED);
    if (!forking) {
        leave();
    }
    int state = cancel_state; // a handler that enters once we are outside has its own there
    end_inside();
    pw_os_cancel_restore(state);
}

// Emulators of system calls take the advice to wipe the marker, and do not all follow it.
static bool is_unnoticed(void) {
    return pw_process_is_new() || (!pw_process.sealed && pw_process.pid != pw_os_pid());
}

void pw_process_enter_to_start(void) {
    begin_inside();
    pthread_mutex_lock(&pw_process.lock);
    holds = true;
}

void pw_process_leave_started(void) {
    if (pw_process.arena.base && is_unnoticed()) {
        notice_fork(); // by a signal handler
    }
    leave();
    end_inside();
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

static bool take_lock_for_fork(void) {
    begin_inside();
    bool taken = wait_for_lock(FORK_PATIENCE);
    forking = taken && tables_are_whole();
    if (forking) {
        __atomic_add_fetch(&pw_process.fork_epoch, 1, __ATOMIC_RELAXED);
    } else if (taken) {
        give_lock();
    }
    end_inside();
    return forking;
}

static void take_all(void) {
    struct pw_caller caller = {0};
    pw_process_look_at_hugetlb(&caller);
    hold_others(true);
    while (!take_lock_for_fork()) {
        release_others(); // who has it may be forking out of a signal handler, and need these
        bool is_lost = lock_is_orphaned();
        hold_others(!is_lost);
        if (is_lost) {
            return;
        }
    }
    pw_process_leave_hugetlb(&caller);
    if (!pw_process.sealed) {
        pw_quiet_before_fork();
    }
}

extern char __libc_single_threaded __attribute__((weak)); // 2.32

static bool is_single_threaded(void) {
    return &__libc_single_threaded && __libc_single_threaded;
}

// Where there was never a second thread nothing is taken, and nothing counted, as a handler may
// jump out of a fork: nobody else changes our tables, and a handler may fork at any time. No signal
// is held back either: one for the whole group must reach the child as well, or end the parent
// before there is one. Only where our handler is the last to run: another's may start a thread.
static bool is_alone(void) {
    return pw_gate.preloaded && is_single_threaded();
}

static void prepare_alone(void) {
    struct pw_caller caller = {0};
    pw_process_look_at_hugetlb(&caller);
    if (pw_gate.general) {
        pw_general_make_room(&pw_process.general, false); // or the child would lose the shelf
    }
    if (pw_process.arena.hugetlb_blocks > 0 && pw_process_enter()) {
        pw_process_leave_hugetlb(&caller);
        pw_process_leave();
    }
    if (!pw_process.sealed && !inside) {
        pw_quiet_before_fork(); // without the lock, which a handler's child would find held
    }
}

// A fork in another thread must not catch our tables half-changed.
static void before_fork(void) {
    bool is_ours = pw_process.arena.base; // or no block is
    if (is_ours && forks == 0 && is_alone()) {
        prepare_alone();
        return;
    }
    if (forks++ > 0 || !is_ours) {
        return;
    }
    // Not for a fork out of a signal handler in the middle of our own work, whose waiting would be
    // for ever, nor of a child that does without us, whose tables are not whole.
    if (inside || lock_is_orphaned()) {
        hold_others(false);
    } else {
        take_all();
    }
}

static void give_lock_after_fork(void) {
    begin_inside();
    forking = false;
    __atomic_add_fetch(&pw_process.fork_epoch, 1, __ATOMIC_RELAXED);
    give_lock();
    end_inside();
}

static void after_fork_parent(void) {
    if (forks > 1) {
        forks--; // the outer one goes on
        return;
    }
    if (forking || forks == 0) {
        pw_quiet_after_fork_parent();
    }
    if (forking) { // this thread took the lock before
        give_lock_after_fork();
    }
    release_others();
    forks = 0;
}

static void keep_others_out(void) {
    keeps_others_out = true;
    __atomic_store_n(&pw_process.orphaned, true, __ATOMIC_RELAXED);
}

// Of a fork that did not take it. A signal handler may have forked while its thread has the lock,
// or takes it, or gives it back: until the handler returns, which may be never, nobody else waits
// for it. Else other threads, even such as this C library does not know, may have gone on while the
// kernel copied page after page: the tables are not whole, though the lock looks free.
static void look_for_lost_lock(void) {
    if (holds || forking) {
        keep_others_out();
    } else if (pw_process.arena.base && !is_single_threaded()) {
        lose_lock();
    } else if (!inside) {
        find_lock_lost();
    } else if (pthread_mutex_trylock(&pw_process.lock) == 0) {
        give_lock();
    } else if (!is_orphaned()) {
        keep_others_out();
    }
}

static void after_fork_child(void) {
    bool goes_on = forks > 1;
    if (forking && !goes_on) {
        give_lock_after_fork();
    } else {
        look_for_lost_lock();
    }
    if (pw_process.started && pw_process.arena.base && is_unnoticed()) {
        notice_fork();
    }
    if (pw_gate.general) {
        pw_general_after_fork_child(&pw_process.general, goes_on, !is_single_threaded());
    }
    if (holds_streams) {
        holds_streams = false;
        _IO_list_resetlock(); // a child with one thread: nobody holds it
    }
    forks = goes_on ? forks - 1 : 0;
}

void pw_process_watch_forks(void) {
    if (!__atomic_exchange_n(&pw_process.watches_forks, true, __ATOMIC_RELAXED)) {
        pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    }
}
