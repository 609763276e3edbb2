// SPDX-License-Identifier: MIT
#include "runtime/peak.h"
#include "process/state.h"

PW_UNLOCKED uint64_t pw_peak_fresh_pages(struct pw_process *process, size_t size) {
    uint64_t pages = pw_pages_for(size), warm = process->arena.warm_pages;
    return pages > warm ? pages - warm : 0;
}

// What is live may be far more: zeros that were given back, copies that share pages (each counts
// here as soon as it is read).
uint64_t pw_peak_resident(struct pw_process *process, struct pw_resident *resident) {
    const struct pw_arena *arena = &process->arena;
    uint64_t pages = pw_resident_pages(resident);
    return pages ? pages : arena->live_pages + arena->warm_pages + arena->foreign_pages;
}
