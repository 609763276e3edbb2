// SPDX-License-Identifier: MIT
//
// Noticing the end of a garbage collection, and what is done then.
//
// A runtime that announces its collections is exact (runtime/r/gc_time.c). Other programs, and R
// until then: the first allocation after a burst of frees.

#include "runtime/collection.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/peak.h"
#include "runtime/r/ask.h"
#include "runtime/r/frozen.h"
#include "runtime/r/r.h"
#include "runtime/runtime.h"

#define BURST_BLOCKS 4u // fewer managed frees in a row are no collection

// --- the end of a collection -------------------------------------------------

// Between looking at a page and giving it back, nobody may write to it.
static bool may_search(struct pw_process *process, const struct pw_caller *caller) {
    bool quiet = pw_is_quiet(caller);
    if (!quiet) {
        PW_COUNT(&process->stats, fallback_threads, 1);
    }
    return quiet;
}

static uint64_t collect(struct pw_process *process, bool quiet, struct pw_resident *resident) {
    bool zeros = process->options.zero != PW_ZERO_OFF && quiet;
    PW_COUNT(&process->stats, collections_seen, 1);
    uint64_t freed =
        pw_share_collected(&process->share, zeros, process->options.zero == PW_ZERO_ALWAYS);
    if (process->options.decay_seconds > 0) {
        freed += pw_arena_trim_surplus(&process->arena, resident) * PW_PAGE;
    }
    process->freed_since = 0;
    pw_collector_collected(&process->collector,
                           process->arena.live_pages + process->arena.foreign_pages);
    return freed;
}

size_t pw_collection_end(struct pw_process *process) {
    if (!pw_is_on() || !pw_process_enter()) {
        return 0;
    }
    uint64_t freed = collect(process, true, &(struct pw_resident){0});
    pw_process_leave();
    return freed;
}

size_t pw_collection_notice(struct pw_process *process) {
    struct pw_caller outside = {.module = PW_MODULE_RUNTIME};
    pw_quiet_look(&outside);
    if (!pw_is_on() || !pw_process_enter()) {
        return 0;
    }
    bool quiet = may_search(process, &outside);
    uint64_t freed = collect(process, quiet, &(struct pw_resident){0});
    pw_process_leave();
    return freed;
}

// The collector asks for the time at its start and at its end, and allocates nothing in between.
void pw_collection_getrusage(struct pw_process *process, const void *site, size_t small_bytes) {
    pw_r_before_collection(process, site); // on or off, and whoever has the lock
    if (!pw_is_on() || process->options.collect == PW_COLLECT_BURST) {
        return;
    }
    struct pw_caller caller = pw_caller_at(process, site);
    if (caller.module == PW_MODULE_OTHER) {
        return;
    }
    struct pw_os_signals signals;
    if (!pw_process_look_and_enter(&caller, &signals)) {
        return;
    }
    if (caller.module == PW_MODULE_RUNTIME) {
        pw_r_release_if_due(process);
    }
    bool is_end = process->allocated_since == 0 && process->small_bytes_then == small_bytes;
    process->allocated_since = 0;
    process->small_bytes_then = small_bytes;
    if (is_end) {
        pw_r_collection_ended(process);
        collect(process, may_search(process, &caller), &(struct pw_resident){0});
    } else {
        pw_r_collection_began(process);
    }
    pw_process_leave_soon(&signals);
}

PW_UNLOCKED static bool is_time_to_look(struct pw_process *process, uint64_t fresh) {
    return process->arena.fresh_pages - process->fresh_then + fresh >= PW_ARENA_LOOK_PAGES;
}

// A matrix of zeros that is filled later need not be there in full until the next collection, where
// the process would become larger than it ever was.
static void look_before_peak(struct pw_process *process, const struct pw_caller *caller,
                             uint64_t fresh, struct pw_resident *resident) {
    uint64_t there = pw_peak_resident(process, resident), freed = 0;
    if (pw_collector_is_peak(&process->collector, there, fresh) &&
        process->options.zero != PW_ZERO_OFF && may_search(process, caller)) {
        bool all = pw_zero_may_search_all(&process->zero_learner, pw_os_thread_cpu_ns());
        freed = pw_share_reclaim_young(&process->share, all) / PW_PAGE;
    }
    there = there > freed ? there - freed : 0;
    pw_resident_less(resident, freed);
    pw_collector_saw_resident(&process->collector, there);
    pw_arena_note_resident(&process->arena, there);
    process->fresh_then = process->arena.fresh_pages;
}

void pw_collection_block_freed(struct pw_process *process) {
    process->freed_since++;
}

PW_UNLOCKED static bool guesses(struct pw_process *process) {
    return process->options.collect == PW_COLLECT_BURST || !process->getrusage_works;
}

PW_UNLOCKED static bool seems_ended(struct pw_process *process) {
    return guesses(process) && process->freed_since >= BURST_BLOCKS;
}

PW_UNLOCKED static bool is_moment(struct pw_process *process, size_t size) {
    return seems_ended(process) || is_time_to_look(process, pw_peak_fresh_pages(process, size));
}

struct pw_caller pw_collection_who_asks(struct pw_process *process, struct pw_request request) {
    struct pw_caller caller = pw_caller_at(process, request.site);
    // Where every block is ours, none is shared or searched for zeros: who runs beside us is of no
    // matter.
    if (!process->gate->general && is_moment(process, request.size)) {
        pw_quiet_look(&caller);
    }
    return caller;
}

bool pw_collection_before_block(struct pw_process *process, struct pw_request request,
                                const struct pw_caller *caller, struct pw_resident *resident) {
    if (request.may_fail && pw_r_collection_is_first(process, request.size, request.site)) {
        return false;
    }
    uint64_t fresh = pw_peak_fresh_pages(process, request.size);
    process->allocated_since++;
    bool ended = seems_ended(process), look = is_time_to_look(process, fresh);
    // A BLAS may ask for memory while its threads write.
    if (caller->looked && caller->module != PW_MODULE_OTHER && !caller->in_blas) {
        if (ended) {
            collect(process, may_search(process, caller), resident);
        }
        if (look) {
            look_before_peak(process, caller, fresh, resident);
        }
    }
    process->freed_since = guesses(process) ? 0 : process->freed_since;
    return true;
}
