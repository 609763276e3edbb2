// SPDX-License-Identifier: MIT
#include "process/large_pages.h"
#include "process/quiet.h"
#include "process/state.h"

void pw_process_look_at_hugetlb(struct pw_caller *caller) {
    if (__atomic_load_n(&pw_process.arena.hugetlb_blocks, __ATOMIC_RELAXED) > 0) {
        pw_quiet_look(caller);
    }
}

// Pages are replaced for it, which must not lose another thread's store, nor a device's: where one
// could write, blocks stay on the pool's pages, and a fork's child that writes one needs another.
static bool may_leave(const struct pw_caller *caller) {
    return pw_process.arena.hugetlb_blocks > 0 && !pw_process.sealed && pw_is_quiet(caller);
}

void pw_process_leave_hugetlb(const struct pw_caller *caller) {
    if (may_leave(caller)) {
        struct pw_os_signals signals;
        pw_os_signals_block(&signals);
        pw_huge_before_fork(&pw_process.arena);
        pw_os_signals_restore(&signals);
    }
}

// Pages of the pool are in no memory cgroup's account, and a copy is.
static bool has_room(const struct pw_extent *extent) {
    return pw_os_memory_room().memory > (uint64_t)extent->pages * PW_PAGE;
}

void pw_process_leave_hugetlb_of(struct pw_extent *extent, const struct pw_caller *caller) {
    if (may_leave(caller) && has_room(extent)) {
        struct pw_os_signals signals;
        pw_os_signals_block(&signals);
        pw_huge_leave_pool(&pw_process.arena, extent);
        pw_os_signals_restore(&signals);
    }
}
