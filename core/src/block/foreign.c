// SPDX-License-Identifier: MIT
//
// What the C library's heap grew counts in the memory rule: warm pages must not come on top of it.

#include "block/foreign.h"
#include "process/lock.h"
#include "process/state.h"

#include <malloc.h>

// Trimming walks the C library's whole heap: only when memory passed the last trim by 4 % and 4 MB.
static bool trim_is_due(struct pw_process *process, uint64_t total_pages) {
    uint64_t last = process->last_trim_pages;
    return total_pages > last + last / 25 + ((size_t)4 << 20) / PW_PAGE;
}

PW_API void pw_foreign_changed(struct pw_process *process) {
    if (!pw_process_enter()) {
        return;
    }
    struct pw_arena *arena = &process->arena;
    size_t now = pw_os_program_break();
    uint64_t pages = now > process->first_break ? (now - process->first_break) / PW_PAGE : 0;
    bool grew = pages > arena->foreign_pages;
    arena->foreign_pages = pages;
    bool trim = false;
    if (grew) {
        uint64_t total = arena->live_pages + pages + arena->warm_pages;
        trim = trim_is_due(process, total);
        if (trim) {
            process->last_trim_pages = total;
        }
        pw_arena_keep_rule(arena, 0, 0, &(struct pw_resident){0});
    }
    pw_process_leave();
    if (trim) {
        malloc_trim(0);
    }
}
