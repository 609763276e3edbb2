// SPDX-License-Identifier: MIT
//
// When to ask the language runtime for a full garbage collection before it begins one by itself. R
// lets vectors grow to half as much again as lives and more, and most of what its minor collections
// leave is garbage that they met alive. A full one takes 20 ms, and 150 with large packages loaded:
// where collections take little of the time, a few more of them cost little, and the program needs
// less memory. Where they take much already, R is left alone, except where the process is about to
// become larger than it ever was: one before that, of a twentieth of all time at most, is worth it.
#ifndef PW_POLICY_EARLY_H
#define PW_POLICY_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#define PW_EARLY_FLOORS 4u

// Zeroed memory is a valid start. Sizes in pages, times in nanoseconds of CPU time of the thread
// that collects.
struct pw_early {
    uint64_t floors[PW_EARLY_FLOORS]; // live memory after the last full collections, latest first
    uint64_t looked_at;               // live memory when one was last considered
    bool asked;                       // one is under way
    bool at_peak;                     // as the process would have become larger
    unsigned vain_left;               // so many more may be in vain
    unsigned peaks_vain;  // log2 of how much more garbage the next one before a peak waits for
    uint64_t began;       // when the one under way began; 0: none is known to be
    uint64_t began_with;  // and the live memory then
    uint64_t full_took;   // the last full one that was asked for
    uint64_t longest;     // the longest of late, less a part for each since
    uint64_t last_took;   // the last full one
    uint64_t last_full;   // and when it was over; 0: there was none
    uint64_t peaks_spent; // on all that were asked for before a peak
    uint64_t collecting;  // time in collections of late,
    uint64_t running;     // of this time,
    uint64_t until;       // which ended then
};

// Is it worth looking at the clock, with `live` pages and the `request` that comes now?
bool pw_early_is_due(struct pw_early *early, uint64_t live, uint64_t request);

// True: ask now, as it costs little. It is under way then.
bool pw_early_ask(struct pw_early *early, uint64_t live, uint64_t request, uint64_t now);

// The same, where it does not cost so little and the request will make a new peak of what is there.
// No more garbage counts than `resident` pages hold.
bool pw_early_ask_at_peak(struct pw_early *early, uint64_t live, uint64_t resident, uint64_t now);

// There was none that could be seen, though it was asked for: `live` pages are there at `now`.
// R makes none while it converts a vector (R_GCEnabled in its memory.c), or announces none, as
// gc.time was switched off. Returns the pages that are gone.
uint64_t pw_early_unseen(struct pw_early *early, uint64_t live, uint64_t now);

// A collection begins with `live` pages: one that was asked for, or another.
void pw_early_began(struct pw_early *early, uint64_t live, uint64_t now);

// A collection is over that left `live` pages; returns the pages that it freed if it was asked for.
uint64_t pw_early_ended(struct pw_early *early, uint64_t live, uint64_t now);

#endif
