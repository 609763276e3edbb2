// SPDX-License-Identifier: MIT
#include "runtime/r/ask.h"
#include "process/lock.h"
#include "process/state.h"
#include "runtime/peak.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#define SMALLEST_REQUEST ((size_t)4 << 10) // R's pages of small objects are smaller

void pw_relief_find_allocator(void) {
    void *allocator = dlsym(RTLD_DEFAULT, "Rf_allocVector3");
    Dl_info module;
    const ElfW(Sym) *symbol = NULL;
    if (allocator && dladdr1(allocator, &module, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
        pw_process.allocator = (uintptr_t)allocator;
        pw_process.allocator_size = symbol->st_size;
    }
}

static uint64_t live_pages(void) {
    return pw_process.arena.live_pages + pw_process.arena.foreign_pages;
}

static void count_asked(uint64_t freed) {
    PW_COUNT(&pw_process.stats, collections_asked, 1);
    PW_COUNT(&pw_process.stats, collections_asked_bytes, freed * PW_PAGE);
}

// --- when memory is short ----------------------------------------------------

static bool ask_when_short(uint64_t request) {
    struct pw_relief *relief = &pw_process.relief;
    uint64_t live = live_pages() + request;
    uint64_t now = pw_os_now_ms();
    if (pw_process.options.relieve == PW_RELIEVE_OFF || !pw_relief_is_due(relief, live, now)) {
        return false;
    }
    bool always = pw_process.options.relieve == PW_RELIEVE_ALWAYS;
    struct pw_os_room room = pw_os_memory_room();
    if (!always) {
        pw_relief_looked(relief, room.memory / PW_PAGE, live, now);
    }
    bool is_short =
        pw_relief_is_short(room.memory / PW_PAGE, pw_process.arena.warm_pages, request, live);
    uint64_t swap = is_short ? room.swap / PW_PAGE : UINT64_MAX;
    return (is_short || always) && pw_relief_ask(relief, live_pages(), swap, pw_os_monotonic_ns());
}

// --- where collections are cheap, or the process would become larger ---------------

static bool may_ask_early(void) {
    const struct pw_options *options = &pw_process.options;
    return options->early && options->collect != PW_COLLECT_BURST && pw_process.getrusage_works;
}

static bool ask_before_peak(size_t size, uint64_t live, uint64_t now) {
    uint64_t resident = pw_peak_resident();
    return pw_peak_rises(resident, pw_peak_fresh_pages(size)) &&
           pw_early_ask_at_peak(&pw_process.early, live, resident, now);
}

static bool ask_early(size_t size) {
    struct pw_early *early = &pw_process.early;
    uint64_t live = live_pages(), request = pw_pages_for(size);
    if (!may_ask_early() || !pw_early_is_due(early, live, request)) {
        return false;
    }
    uint64_t now = pw_os_thread_cpu_ns();
    return pw_early_ask(early, live, request, now) || ask_before_peak(size, live, now);
}

void pw_relief_collection_began(void) {
    if (!pw_process.options.early) {
        return;
    }
    pw_early_began(&pw_process.early, live_pages(), pw_os_thread_cpu_ns());
}

void pw_relief_collection_ended(void) {
    if (!pw_process.options.early) {
        return;
    }
    bool asked = pw_process.early.asked;
    uint64_t freed = pw_early_ended(&pw_process.early, live_pages(), pw_os_thread_cpu_ns());
    if (asked) {
        count_asked(freed);
    }
}

// --- requests ------------------------------------------------------------------

static void attempt_again(void) {
    pw_process.was_refused = false;
    if (pw_process.relief.asked_at != 0) {
        count_asked(pw_relief_ended(&pw_process.relief, live_pages(), pw_os_monotonic_ns()));
    }
    if (pw_process.early.asked) {
        count_asked(pw_early_unseen(&pw_process.early, live_pages(), pw_os_thread_cpu_ns()));
    }
}

static bool ask(size_t size) {
    if (!ask_when_short(pw_pages_for(size)) && !ask_early(size)) {
        return false;
    }
    pw_process.was_refused = true;
    pw_process.allocated_since++; // the collection's start is not taken for an end
    return true;
}

bool pw_relief_comes_first(size_t size, const void *site) {
    if ((uintptr_t)site - pw_process.allocator >= pw_process.allocator_size ||
        size < SMALLEST_REQUEST || size > PTRDIFF_MAX - PW_PAGE || !pw_is_on() ||
        !pw_process_enter()) {
        return false;
    }
    bool first = false;
    if (pw_process.was_refused) {
        attempt_again();
    } else {
        first = ask(size);
    }
    pw_process_leave();
    return first;
}
