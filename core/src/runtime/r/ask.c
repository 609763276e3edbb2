// SPDX-License-Identifier: MIT
#include "runtime/r/ask.h"
#include "process/lock.h"
#include "process/state.h"
#include "runtime/peak.h"
#include "runtime/r/frozen.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#define SMALLEST_REQUEST ((size_t)4 << 10) // R's pages of small objects are smaller

void pw_r_find_allocator(struct pw_process *process) {
    void *allocator = dlsym(RTLD_DEFAULT, "Rf_allocVector3");
    Dl_info module;
    const ElfW(Sym) *symbol = NULL;
    if (allocator && dladdr1(allocator, &module, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
        process->allocator = (uintptr_t)allocator;
        process->allocator_size = symbol->st_size;
    }
}

static uint64_t live_pages(struct pw_process *process) {
    return process->arena.live_pages + process->arena.foreign_pages;
}

static void count_asked(struct pw_process *process, uint64_t freed) {
    PW_COUNT(&process->stats, collections_asked, 1);
    PW_COUNT(&process->stats, collections_asked_bytes, freed * PW_PAGE);
}

// --- when memory is short ----------------------------------------------------

static bool ask_when_short(struct pw_process *process, uint64_t request) {
    struct pw_collector *collector = &process->collector;
    uint64_t live = live_pages(process) + request;
    uint64_t now = pw_os_now_ms();
    if (process->options.relieve == PW_RELIEVE_OFF ||
        !pw_collector_may_look_at_room(collector, live, now)) {
        return false;
    }
    struct pw_os_room room = pw_os_memory_room();
    uint64_t pages = room.memory / PW_PAGE;
    pw_collector_saw_room(collector, pages, live, now);
    struct pw_collector_facts facts = {
        .live = live_pages(process),
        .swap = room.swap / PW_PAGE,
        .now = pw_os_monotonic_ns(),
    };
    return pw_collector_is_short(pages, process->arena.warm_pages, request, live) &&
           pw_collector_ask(collector, PW_REASON_SHORT, &facts);
}

// --- where collections are cheap, or the process would become larger ---------------

static bool may_ask_early(struct pw_process *process) {
    const struct pw_options *options = &process->options;
    return options->early && options->collect != PW_COLLECT_BURST && process->getrusage_works;
}

static bool ask_before_peak(struct pw_process *process, size_t size,
                            struct pw_collector_facts *facts) {
    facts->resident = pw_peak_resident(process, &(struct pw_resident){0});
    return pw_collector_is_peak(&process->collector, facts->resident,
                                pw_peak_fresh_pages(process, size)) &&
           pw_collector_ask(&process->collector, PW_REASON_PEAK, facts);
}

static bool ask_early(struct pw_process *process, size_t size) {
    struct pw_collector *collector = &process->collector;
    struct pw_collector_facts facts = {.live = live_pages(process), .request = pw_pages_for(size)};
    if (!may_ask_early(process) ||
        !pw_collector_may_look_at_clock(collector, facts.live, facts.request)) {
        return false;
    }
    facts.now = pw_os_thread_cpu_ns();
    return pw_collector_ask(collector, PW_REASON_CHEAP, &facts) ||
           ask_before_peak(process, size, &facts);
}

void pw_r_collection_began(struct pw_process *process) {
    uint64_t now = pw_os_thread_cpu_ns();
    pw_freeze_collection_began(&process->freezing, now);
    if (process->freeze_changes != pw_r_freeze_changes()) {
        process->freeze_changes = pw_r_freeze_changes();
        pw_collector_forget_times(&process->collector);
    }
    if (process->options.early) {
        pw_collector_began(&process->collector, live_pages(process), now);
    }
}

void pw_r_collection_ended(struct pw_process *process) {
    uint64_t now = pw_os_thread_cpu_ns();
    pw_freeze_collection_ended(&process->freezing, now);
    if (!process->options.early) {
        return;
    }
    struct pw_collector *collector = &process->collector;
    bool asked = collector->asked && collector->asked != PW_REASON_SHORT;
    uint64_t freed = pw_collector_ended(collector, live_pages(process), now);
    if (asked) {
        count_asked(process, freed);
    }
}

// --- requests ------------------------------------------------------------------

// What the collection freed is the pool's: as much of it as was missing goes back to the system.
static void short_one_ended(struct pw_process *process, size_t size) {
    struct pw_arena *arena = &process->arena;
    struct pw_collector *collector = &process->collector;
    uint64_t live = live_pages(process);
    count_asked(process, pw_collector_asked_again(collector, live, pw_os_monotonic_ns()));
    pw_arena_purge(arena, pw_collector_spare(collector, arena->warm_pages, pw_pages_for(size)));
}

static void attempt_again(struct pw_process *process, size_t size) {
    struct pw_collector *collector = &process->collector;
    process->was_refused = false;
    if (collector->asked == PW_REASON_SHORT) {
        short_one_ended(process, size);
    } else if (collector->asked) {
        uint64_t live = live_pages(process);
        count_asked(process, pw_collector_asked_again(collector, live, pw_os_thread_cpu_ns()));
    }
}

static bool ask(struct pw_process *process, size_t size) {
    if (!ask_when_short(process, pw_pages_for(size)) && !ask_early(process, size)) {
        return false;
    }
    process->was_refused = true;
    process->allocated_since++; // the collection's start is not taken for an end
    return true;
}

static bool tries_again(struct pw_process *process, size_t size, const void *site) {
    return (uintptr_t)site - process->allocator < process->allocator_size &&
           size >= SMALLEST_REQUEST && size <= PTRDIFF_MAX - PW_PAGE;
}

bool pw_r_collection_is_first(struct pw_process *process, size_t size, const void *site) {
    if (!tries_again(process, size, site)) {
        return false;
    }
    if (process->was_refused) {
        attempt_again(process, size);
        return false;
    }
    return ask(process, size);
}

bool pw_r_collection_comes_first(struct pw_process *process, size_t size, const void *site) {
    if (!tries_again(process, size, site) || !pw_is_on() || !pw_process_enter()) {
        return false;
    }
    bool first = pw_r_collection_is_first(process, size, site);
    pw_process_leave();
    return first;
}
