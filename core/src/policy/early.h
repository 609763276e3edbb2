// SPDX-License-Identifier: MIT
//
// When to ask the language runtime for a full garbage collection before it begins one by itself. R
// lets vectors grow to half as much again as lives and more, and most of what its minor collections
// leave is garbage that they met alive. A full one takes 20 ms, and 150 with large packages loaded:
// where collections take little of the time, a few more of them cost little, and the program needs
// less memory. Where they take much already, R is left alone.
#ifndef PW_POLICY_EARLY_H
#define PW_POLICY_EARLY_H

#include <stdbool.h>
#include <stdint.h>

// Zeroed memory is a valid start. Sizes in pages, times in nanoseconds of CPU time of the thread
// that collects.
struct pw_early {
    uint64_t floors[2];  // live memory after the last two full collections, the latest first
    uint64_t looked_at;  // live memory when one was last considered
    bool asked;          // one is under way
    unsigned vain_left;  // so many more may be in vain
    uint64_t began;      // when the one under way began; 0: none is known to be
    uint64_t began_with; // and the live memory then
    uint64_t full_took;  // the last full one that was asked for
    uint64_t collecting; // time in collections of late,
    uint64_t running;    // of this time,
    uint64_t until;      // which ended then
};

// Is it worth looking at the clock, with `live` pages after the request?
bool pw_early_is_due(struct pw_early *early, uint64_t live);

// True: ask now, with `live` pages before the request. It is under way then.
bool pw_early_ask(struct pw_early *early, uint64_t live, uint64_t now);

// A collection begins with `live` pages: one that was asked for, or another.
void pw_early_began(struct pw_early *early, uint64_t live, uint64_t now);

// A collection is over that left `live` pages; returns the pages that it freed if it was asked for.
uint64_t pw_early_ended(struct pw_early *early, uint64_t live, uint64_t now);

#endif
