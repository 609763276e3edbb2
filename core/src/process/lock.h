// SPDX-License-Identifier: MIT
//
// The process's lock, and its forks: a fork in another thread must not catch our tables
// half-changed.
#ifndef PW_PROCESS_LOCK_H
#define PW_PROCESS_LOCK_H

#include "pagewise.h"

// Take the lock. False when this thread already has it (a signal handler copying memory in the
// middle of our own work): do without Pagewise then.
// Likewise when a fork holds the lock for so long that it may be waiting for this very thread.
bool pw_process_enter(void);
void pw_process_leave(void);

// The same for what waits for nobody in the C library: memcpy, memset, mprotect, getrusage. A
// collector of garbage calls them while it has stopped other threads by a signal, wherever they
// were, and one of those may hold the lock. False where it is not to be had within a moment. Unlike
// malloc they may be left for good by a jump out of a signal handler, which may also wait for
// another thread: signals are held back until pw_process_leave_soon.
struct pw_os_signals;
bool pw_process_enter_soon(struct pw_os_signals *held);
void pw_process_leave_soon(const struct pw_os_signals *held);

// The same, after a look at who else runs (pw_quiet_look): in this order, as the look takes the
// dynamic loader's lock. `held` must live as long as the caller is asked about.
struct pw_caller;
bool pw_process_look_and_enter(struct pw_caller *caller, struct pw_os_signals *held);

// The same for those for whom nobody else waits, our own threads and one that enters a sandbox or
// ends: never false for want of patience.
bool pw_process_wait(void);

// The same to switch on, in the middle of which forks begin to take it. Not where it is held.
void pw_process_enter_to_start(void);
void pw_process_leave_started(void);

// Have forks take the lock. Handlers that were registered earlier are called later before a fork,
// and must find it free if they wait for other threads.
PW_API void pw_process_watch_forks(void);

#endif
