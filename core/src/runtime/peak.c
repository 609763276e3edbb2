// SPDX-License-Identifier: MIT
#include "runtime/peak.h"
#include "process/state.h"

uint64_t pw_peak_fresh_pages(size_t size) {
    uint64_t pages = pw_pages_for(size), warm = pw_process.arena.warm_pages;
    return pages > warm ? pages - warm : 0;
}

// What is live may be far more: zeros that were given back, copies that share pages (each counts
// here as soon as it is read).
uint64_t pw_peak_resident(void) {
    const struct pw_arena *arena = &pw_process.arena;
    uint64_t pages = pw_os_resident_pages();
    return pages ? pages : arena->live_pages + arena->warm_pages + arena->foreign_pages;
}

bool pw_peak_rises(uint64_t resident, uint64_t fresh) {
    return resident + fresh > pw_process.highest_resident;
}

void pw_peak_note(uint64_t resident) {
    if (pw_process.highest_resident < resident) {
        pw_process.highest_resident = resident;
    }
}
