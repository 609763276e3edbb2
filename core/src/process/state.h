// SPDX-License-Identifier: MIT
//
// The process: everything Pagewise knows in it, behind one lock. This is the library's only
// global state.
#ifndef PW_PROCESS_STATE_H
#define PW_PROCESS_STATE_H

#include "extent/extent.h"
#include "general/general.h"
#include "huge/huge.h"
#include "os/program.h"
#include "pagewise.h"
#include "policy/collector.h"
#include "policy/copy.h"
#include "policy/freeze_schedule.h"
#include "policy/huge_price.h"
#include "policy/options.h"
#include "policy/zero_schedule.h"
#include "process/quiet.h"
#include "share/share.h"

#include <pthread.h>

struct pw_address_range {
    uintptr_t start, end;
};

struct pw_process {
    pthread_mutex_t lock;
    struct pw_gate *gate;   // what is looked at without the lock
    bool started;           // options were read; never undone
    bool watches_forks;     // handlers are registered
    uint32_t *fork_marker;  // reads zero in a fork's child that has not noticed yet
    bool orphaned;          // the lock is held by a thread that this process does not have, or by
                            // one whose signal handler forked this process and has not returned
    uint32_t fork_epoch;    // odd while a fork holds the lock
    uint32_t fork_stalled;  // the one that somebody waited for too long: nobody waits any more
    bool stalled;           // somebody waited in vain, and nobody has had the lock since
    int pid;                // used where the kernel has no such marker
    pthread_t first_thread; // of this process, where it is known
    bool knows_first_thread;
    uint32_t put_off; // first of the blocks to release when the lock can be had; 0: there is none

    struct pw_address_range c_library[2]; // the C library and the dynamic loader
    const char *loader_path;              // the latter's file, and which one that is: 0 where
    struct pw_os_identity loader;         // nobody may ask
    struct pw_options options;
    struct pw_stats stats;
    struct pw_arena arena;
    struct pw_share share;
    struct pw_huge huge;
    struct pw_predictor predictor;
    struct pw_zero_learner zero_learner;
    struct pw_collector collector;
    struct pw_freeze_schedule freezing;
    uint64_t freeze_changes; // when the collector's times were last told of them
    struct pw_huge_price huge_price;
    uintptr_t allocator;   // R's, of vectors: asks again when malloc fails
    size_t allocator_size; // bytes of code; 0: there is none
    bool was_refused;      // its last request failed for a collection to come first

    struct pw_general general; // policy general
    pthread_key_t thread_end;  // of a thread with a cache

    bool serves_r;            // the program is R, or has it as a library
    bool serves_python;       // the same of Python
    bool in_worker;           // of joblib's
    size_t first_break;       // program break at the start
    uint64_t last_trim_pages; // memory when the C library was last asked to trim
    uint64_t fresh_then;      // the arena's fresh_pages at the last look
    uint64_t freed_since;     // managed blocks freed since the last collection end
    uint64_t allocated_since; // managed blocks allocated since the last getrusage
    size_t small_bytes_then;  // of other blocks, as it was said at that getrusage
    bool getrusage_works;     // the collector announces itself: no guessing from bursts
    struct pw_quiet quiet;    // who else could write to blocks
    bool keeper_runs;         // the thread that returns idle pages
    bool locks_all;           // mlockall: what is mapped from now on is locked in memory
    uint32_t keepers;         // so many were started
    uint32_t keepers_counted; // the last of them that was counted among the threads that are ours
    bool keeper_failed;       // it could not be started: not tried again
    bool keeper_stops;        // it is to end now
    int keeper_thread;        // its number, after its end as well; 0: not known yet
    pthread_cond_t keeper_wake;
    struct pw_os_file keeper_pressure; // tells of memory pressure, while there is a keeper
    size_t largest_freed;    // block; the C library would have learnt from it (c_library.h)
    size_t uncounted_header; // of a mapped block of the C library's: bytes that its size leaves out
    bool sealed;             // a filter came into force: no system calls any more (sandbox.h)
};

PW_API extern struct pw_process pw_process;

// What the preloaded malloc family looks at before it takes any lock. Sizes from `threshold` on are
// ours; SIZE_MAX while Pagewise is off. Addresses in [base, base + span) may be.
struct pw_gate {
    size_t threshold;
    uintptr_t base;
    size_t span;
    size_t copy_threshold; // copies and fills from this size on are worth a look
    bool map_directly;     // policies direct and ksm: the C library maps each large block
    bool mergeable;        // and marks it for KSM
    bool preloaded;        // the whole program's malloc family is ours already
    bool serves_all;       // and it can serve small blocks as well: policy general
    bool general;          // it does
    bool hooked; // parts of the program alone come to us: others resize blocks by themselves
    size_t largest_small; // up to this size from segments
    uint8_t *classes;     // of the pages from `base` on
};

PW_API extern struct pw_gate pw_gate;

// What was learnt of collections is of another process, or of other options.
void pw_process_forget_collections(void);

// The process and its first thread are the ones that run this. Not in a sandbox.
void pw_process_note_identity(void);

// A child of a fork in which pw_process_enter has not been called yet.
bool pw_process_is_new(void);

static inline bool pw_gate_contains(const void *address) {
    // Read without the lock: whoever was handed a block also sees the span that covers it.
    return (uintptr_t)address - pw_gate.base < __atomic_load_n(&pw_gate.span, __ATOMIC_RELAXED);
}

static inline bool pw_gate_overlaps(const void *address, size_t size) {
    uintptr_t start = (uintptr_t)address;
    return pw_gate_contains(address) || pw_gate.base - start < size;
}

#endif
