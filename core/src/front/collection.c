// SPDX-License-Identifier: MIT
//
// Noticing the end of a garbage collection, and what is done then.
//
// R: with gc.time(TRUE) the collector calls getrusage at its start and its end, which is exact. R's
// own hook for event handlers (R_PolledEvents, R_ext/eventloop.h) is used once, at a moment when R
// code may run, to switch that on. Other programs, and R until then: the first allocation after a
// burst of frees.

#include "front/collection.h"
#include "front/module.h"
#include "front/peak.h"
#include "front/process.h"
#include "front/relief.h"

#include <dlfcn.h>

#define BURST_BLOCKS 4u // fewer managed frees in a row are no collection

// --- switching gc.time on ----------------------------------------------------

typedef void *r_value; // SEXP

static void (**polled_events)(void);
static void (*earlier_handler)(void);

static void *symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

// gc.time(TRUE), as R code would call it.
static void enable_gc_time(void) {
    r_value (*install)(const char *) = (r_value(*)(const char *))symbol("Rf_install");
    r_value (*logical)(int) = (r_value(*)(int))symbol("Rf_ScalarLogical");
    r_value (*call2)(r_value, r_value) = (r_value(*)(r_value, r_value))symbol("Rf_lang2");
    r_value (*evaluate)(r_value, r_value, int *) =
        (r_value(*)(r_value, r_value, int *))symbol("R_tryEvalSilent");
    r_value (*protect)(r_value) = (r_value(*)(r_value))symbol("Rf_protect");
    void (*unprotect)(int) = (void (*)(int))symbol("Rf_unprotect");
    r_value *base = (r_value *)symbol("R_BaseEnv");
    if (!install || !logical || !call2 || !evaluate || !protect || !unprotect || !base) {
        return;
    }
    int failed = 0;
    r_value argument = protect(logical(1));
    r_value call = protect(call2(install("gc.time"), argument));
    evaluate(call, *base, &failed);
    unprotect(2);
    pw_process.getrusage_works = !failed;
}

static void on_polled_events(void) {
    *polled_events = earlier_handler;
    enable_gc_time();
    if (earlier_handler) {
        earlier_handler();
    }
}

PW_API void pw_collection_find_runtime(void) {
    if (!pw_is_on()) {
        return;
    }
    pw_relief_find_allocator();
    polled_events = (void (**)(void))symbol("R_PolledEvents");
    if (polled_events) {
        pw_process_found_r();
    }
    bool of_use = pw_process.options.zero != PW_ZERO_OFF || pw_process.options.early ||
                  pw_process.options.relieve != PW_RELIEVE_OFF;
    if (of_use && polled_events && pw_process.options.collect != PW_COLLECT_BURST) {
        earlier_handler = *polled_events;
        *polled_events = on_polled_events;
    }
}

// --- the end of a collection -------------------------------------------------

// Between looking at a page and giving it back, nobody may write to it.
static bool may_search(const struct pw_caller *caller) {
    bool quiet = pw_is_quiet(caller, NULL);
    if (!quiet) {
        PW_COUNT(&pw_process.stats, fallback_threads, 1);
    }
    return quiet;
}

static uint64_t collect(bool quiet) {
    uint64_t freed = 0;
    PW_COUNT(&pw_process.stats, collections_seen, 1);
    pw_share_count_collection(&pw_process.share);
    if (pw_process.options.zero != PW_ZERO_OFF && quiet) {
        freed = pw_share_reclaim_zero(&pw_process.share, pw_process.options.zero == PW_ZERO_ALWAYS);
    }
    freed += pw_share_reclaim_sole(&pw_process.share);
    if (pw_process.options.decay_seconds > 0) {
        freed += pw_arena_trim_surplus(&pw_process.arena) * PW_PAGE;
    }
    pw_process.freed_since = 0;
    pw_relief_collected(&pw_process.relief,
                        pw_process.arena.live_pages + pw_process.arena.foreign_pages);
    return freed;
}

size_t pw_collection_ended(void) {
    if (!pw_is_on() || !pw_process_enter()) {
        return 0;
    }
    uint64_t freed = collect(true);
    pw_process_leave();
    return freed;
}

size_t pw_collection_noticed(void) {
    struct pw_caller outside = {.module = PW_MODULE_RUNTIME};
    pw_quiet_look(&outside);
    if (!pw_is_on() || !pw_process_enter()) {
        return 0;
    }
    uint64_t freed = collect(may_search(&outside));
    pw_process_leave();
    return freed;
}

// The collector asks for the time at its start and at its end, and allocates nothing in between.
void pw_collection_getrusage(const void *site, size_t small_bytes) {
    if (!pw_is_on() || pw_process.options.collect == PW_COLLECT_BURST) {
        return;
    }
    struct pw_caller caller = pw_caller_at(site);
    if (caller.module == PW_MODULE_OTHER) {
        return;
    }
    pw_quiet_look(&caller);
    if (!pw_process_enter_soon()) {
        return;
    }
    bool is_end = pw_process.allocated_since == 0 && pw_process.small_bytes_then == small_bytes;
    pw_process.allocated_since = 0;
    pw_process.small_bytes_then = small_bytes;
    if (is_end) {
        pw_relief_collection_ended();
        collect(may_search(&caller));
    } else {
        pw_relief_collection_began();
    }
    pw_process_leave();
}

static bool is_time_to_look(uint64_t fresh) {
    return pw_process.arena.fresh_pages - pw_process.fresh_then + fresh >= PW_ARENA_LOOK_PAGES;
}

// A matrix of zeros that is filled later need not be there in full until the next collection, where
// the process would become larger than it ever was.
static void look_before_peak(const struct pw_caller *caller, uint64_t fresh) {
    uint64_t resident = pw_peak_resident(), freed = 0;
    if (pw_peak_rises(resident, fresh) && pw_process.options.zero != PW_ZERO_OFF &&
        may_search(caller)) {
        bool all = pw_zero_may_waste(&pw_process.zero_learner, pw_os_thread_cpu_ns());
        freed = pw_share_reclaim_young(&pw_process.share, all) / PW_PAGE;
    }
    resident = resident > freed ? resident - freed : 0;
    pw_peak_note(resident);
    pw_arena_note_resident(&pw_process.arena, resident);
    pw_process.fresh_then = pw_process.arena.fresh_pages;
}

void pw_collection_block_freed(void) {
    pw_process.freed_since++;
}

static bool guesses(void) {
    return pw_process.options.collect == PW_COLLECT_BURST ||
           (pw_process.options.collect == PW_COLLECT_AUTO && !pw_process.getrusage_works);
}

static bool seems_ended(void) {
    return guesses() && pw_process.freed_since >= BURST_BLOCKS;
}

bool pw_collection_is_moment(size_t size) {
    return seems_ended() || is_time_to_look(pw_peak_fresh_pages(size));
}

void pw_collection_block_allocated(size_t size, const struct pw_caller *caller) {
    uint64_t fresh = pw_peak_fresh_pages(size);
    pw_process.allocated_since++;
    bool ended = seems_ended(), look = is_time_to_look(fresh);
    // A BLAS may ask for memory while its threads write.
    if (caller->looked && caller->module != PW_MODULE_OTHER && !caller->in_blas) {
        if (ended) {
            collect(may_search(caller));
        }
        if (look) {
            look_before_peak(caller, fresh);
        }
    }
    pw_process.freed_since = guesses() ? 0 : pw_process.freed_since;
}
