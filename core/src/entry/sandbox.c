// SPDX-License-Identifier: MIT
#include "entry/sandbox.h"
#include "block/keeper.h"
#include "process/c_library.h"
#include "process/large_pages.h"
#include "process/lock.h"
#include "process/state.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOM_LEFT ((size_t)64 << 10) // or the C library gives it back

bool pw_sandbox_forbids(const struct pw_options *options) {
    return options->filters != PW_FILTERS_ANY && pw_os_filter_count() > options->filters;
}

// Under the heap's lock. The pool goes now, while it can.
static void drop_everything(void) {
    struct pw_arena *arena = &pw_process.arena;
    pw_arena_purge(arena, arena->warm_pages);
    pw_share_seal(&pw_process.share);
    if (pw_gate.general) {
        pw_general_seal(&pw_process.general);
    }
    pw_arena_seal(arena);
    pw_process.options.decay_seconds = 0;
}

// It has not seen the blocks that we freed in its place, after which it would rather use its heap
// than map blocks of such sizes.
static void teach_c_library(void) {
    if (pw_process.largest_freed > PW_C_FIRST_MAPPED) {
        __libc_free(__libc_malloc(pw_process.largest_freed - PW_PAGE));
    }
}

// Nor does its heap have the room that they would have left there, and the filter may forbid to
// enlarge it. It keeps at most twice the largest block, with what it has by now. Nothing is written
// there, so it is address space alone.
static void give_room_to_c_library(size_t freed) {
    size_t largest = pw_process.largest_freed, has = pw_os_c_heap_room();
    if (largest <= PW_C_FIRST_MAPPED || 2 * largest <= has + ROOM_LEFT) {
        return;
    }
    size_t most = 2 * largest - has - ROOM_LEFT, rest = freed < most ? freed : most;
    void *pieces[3] = {NULL};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && rest > 0; i++) {
        size_t piece = rest < largest - 2 * PW_PAGE ? rest : largest - 2 * PW_PAGE; // not mapped
        pieces[i] = __libc_malloc(piece);
        rest -= piece;
    }
    for (size_t i = sizeof pieces / sizeof *pieces; i-- > 0;) {
        __libc_free(pieces[i]);
    }
}

void pw_sandbox_enters(void) {
    if (pw_process.sealed || pw_process.options.filters == PW_FILTERS_ANY) {
        return;
    }
    pw_keeper_end_for_ever(&pw_process); // another thread must not start one meanwhile
    // Not where a signal handler came in the middle of our own work: what is half done needs its
    // calls still, and there is no more to do here than to begin nothing.
    struct pw_caller caller = {0};
    pw_process_look_at_hugetlb(&caller);
    bool entered = pw_process_wait(); // for another thread's fork to end, however long it takes
    if (entered) {
        pw_process_leave_hugetlb(&caller);
    }
    __atomic_store_n(&pw_process.sealed, true, __ATOMIC_RELAXED);
    pw_gate.copy_threshold = SIZE_MAX;
    pw_gate.mergeable = false;
    pw_process.options.verbose = false;
    pw_stats_seal(&pw_process.stats);
    if (pw_process.stats.block) {
        PW_COUNT(&pw_process.stats, fallback_seccomp, 1);
    }
    if (!entered) {
        pw_gate.threshold = SIZE_MAX;
        return;
    }
    if (pw_process.arena.base) {
        drop_everything();
    }
    size_t freed = (size_t)(pw_process.arena.end - pw_process.arena.live_pages) * PW_PAGE;
    pw_process_leave();
    teach_c_library();
    if (pw_gate.general) {
        pw_general_wait_for_looks(&pw_process.general);
    } else {
        give_room_to_c_library(freed);
    }
}

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static bool installs_by_prctl(unsigned long option, unsigned long mode, unsigned long filter) {
    // System calls become a signal, as an emulator wishes that runs another system's programs: a
    // copy must not make one then.
    if (option == PR_SET_SYSCALL_USER_DISPATCH) {
        return mode != 0;
    }
    // Without a filter, programs only ask whether the kernel knows the call.
    return option == PR_SET_SECCOMP &&
           (mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter != 0));
}

static bool installs_by_seccomp(unsigned long operation, unsigned long flags,
                                unsigned long filter) {
    return operation == SECCOMP_SET_MODE_STRICT ? flags == 0 && filter == 0
                                                : operation == SECCOMP_SET_MODE_FILTER && filter;
}

void pw_sandbox_before_syscall(long number, unsigned long one, unsigned long two,
                               unsigned long three) {
    if ((number == SYS_prctl && installs_by_prctl(one, two, three)) ||
        (number == SYS_seccomp && installs_by_seccomp(one, two, three))) {
        pw_sandbox_enters();
    }
    if (number == SYS_exit) { // of one thread: the last one's status is the program's
        pw_keeper_before_exit(&pw_process);
    }
    // Some namespaces are refused to a process in which another thread lives.
    if (number == SYS_unshare || number == SYS_setns) {
        pw_keeper_end(&pw_process);
    }
}

// --- the C library's functions -----------------------------------------------

// They do no more than their system call. To look for them would need the dynamic loader's lock,
// which a child of a raw fork may never get.

int pw_sandbox_prctl(int option, const unsigned long *arguments) {
    pw_sandbox_before_syscall(SYS_prctl, (unsigned long)option, arguments[0], arguments[1]);
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int pw_sandbox_unshare(int flags) {
    pw_sandbox_before_syscall(SYS_unshare, (unsigned long)flags, 0, 0);
    return (int)syscall(SYS_unshare, flags);
}

int pw_sandbox_setns(int fd, int type) {
    pw_sandbox_before_syscall(SYS_setns, (unsigned long)fd, (unsigned long)type, 0);
    return (int)syscall(SYS_setns, fd, type);
}
