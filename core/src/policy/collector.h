// SPDX-License-Identifier: MIT
//
// When to ask the language runtime for a full garbage collection, before it begins one by itself.
// There are three reasons to:
//
//  - memory is short: to swap, or to be killed, costs more than any collection;
//  - collections are cheap here: R lets vectors grow to half as much again as lives and more, and
//    most of what its minor collections leave is garbage that they met alive. A full one takes
//    20 ms, and 150 with large packages loaded: where they take little of the time, a few more cost
//    little, and the program needs less memory;
//  - the process is about to become larger than it ever was: one before that is worth more time.
//
// Each reason is a row of a table (collector.c): how much garbage there must be, which part of the
// time its collections may take, and what follows when they find little. Times are on the clock of
// the reason: real time where memory is short, as who waits for swap uses no processor; the CPU
// time of the thread that collects for the other two. In nanoseconds, where nothing else is said;
// sizes in pages.
#ifndef PW_POLICY_COLLECTOR_H
#define PW_POLICY_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

enum pw_reason {
    PW_REASON_NONE,
    PW_REASON_SHORT, // memory is short
    PW_REASON_CHEAP, // collections take little of the time
    PW_REASON_PEAK,  // the process would become larger than it ever was
    PW_REASONS
};

#define PW_COLLECTOR_FLOORS 4u

// What is known of one reason.
struct pw_reason_state {
    unsigned in_vain; // collections asked for that found little, the useful ones taken off
    uint64_t spent;   // time on those asked for; cheap: on all collections of late
    uint64_t
        looked_at; // live memory when it was last considered; that of `cheap` is peak's as well
};

// Zeroed memory is a valid start.
struct pw_collector {
    enum pw_reason asked; // why the collection that is under way was asked for
    struct pw_reason_state of[PW_REASONS];
    uint64_t after;            // live memory when the last collection ended
    uint64_t highest_resident; // most pages of the process at a look, less what a search found

    // Memory is short.
    uint64_t plenty_below; // below that much live memory there was room at the last look
    uint64_t plenty_since; // when that was, ms
    uint64_t plenty_ms;    // and how long others need to take half of what there was
    uint64_t room;         // pages that were left then
    uint64_t before;       // live memory when a collection was asked for
    uint64_t asked_at;     // and when that was
    uint64_t first_asked;  // 0: never
    bool is_deadly;        // without the collection asked for the program would be killed

    // Full collections, the runtime's own among them.
    uint64_t floors[PW_COLLECTOR_FLOORS]; // live memory after the last ones, latest first
    bool found_much;     // the runtime's own did, since three that were asked for found little
    uint64_t began;      // when the one under way began; 0: none is known to be
    uint64_t began_with; // and the live memory then
    uint64_t full_took;  // the last one that was asked for
    uint64_t last_took;  // the last one
    uint64_t last_full;  // and when it was over; 0: there was none
    uint64_t longest;    // the longest of late, less a part for each since
    uint64_t running;    // the time of late, of which of[PW_REASON_CHEAP].spent was in collections
    uint64_t until;      // which ended then
};

// What was learnt is of another process, or of other options. What is known of the machine's memory
// and of the process's size stays.
void pw_collector_forget(struct pw_collector *collector);

// A collection takes another time from now on: part of the heap was frozen, or is no more. What was
// timed tells neither which of them are full nor what the next one costs.
void pw_collector_forget_times(struct pw_collector *collector);

// --- is it worth a look? -----------------------------------------------------

// At how much room there is, with `live` pages after the request? That takes tens of microseconds:
// it reads up to a dozen small files.
bool pw_collector_may_look_at_room(struct pw_collector *collector, uint64_t live, uint64_t now_ms);

// There are `room` pages. Looking again can wait until a part of them is used.
void pw_collector_saw_room(struct pw_collector *collector, uint64_t room, uint64_t live,
                           uint64_t now_ms);

// At the clock, with `live` pages and the `request` that comes now?
bool pw_collector_may_look_at_clock(struct pw_collector *collector, uint64_t live,
                                    uint64_t request);

// --- is there a reason? ------------------------------------------------------

// How many of `warm` pages to give back after a collection that was asked for because memory was
// short, when `request` of them are needed at once: what others take, or what we do not see, must
// not kill a process that holds free memory.
uint64_t pw_collector_spare(const struct pw_collector *collector, uint64_t warm, uint64_t request);

// Do `request` more pages make memory short, with `room` pages left, `warm` ones of our own, and
// `live` after the request?
bool pw_collector_is_short(uint64_t room, uint64_t warm, uint64_t request, uint64_t live);

// Would the process become larger than it ever was with `fresh` pages on top of `resident` ones?
bool pw_collector_is_peak(const struct pw_collector *collector, uint64_t resident, uint64_t fresh);

// `resident` pages were there at a look.
void pw_collector_saw_resident(struct pw_collector *collector, uint64_t resident);

// --- asking ------------------------------------------------------------------

struct pw_collector_facts {
    uint64_t live;     // without the request
    uint64_t request;  // of `cheap`
    uint64_t swap;     // of `short`: pages of swap that are left
    uint64_t resident; // of `peak`: no more garbage counts than these hold
    uint64_t now;
};

// True: ask now. The collection is under way then. There is never more than one.
bool pw_collector_ask(struct pw_collector *collector, enum pw_reason reason,
                      const struct pw_collector_facts *facts);

// --- what becomes of it ------------------------------------------------------

// A collection begins with `live` pages: one that was asked for, or another. `now` is CPU time.
void pw_collector_began(struct pw_collector *collector, uint64_t live, uint64_t now);

// It is over and left `live` pages; returns the pages that it freed if it was asked for, but not
// because memory was short.
uint64_t pw_collector_ended(struct pw_collector *collector, uint64_t live, uint64_t now);

// Any collection is over, however it was noticed.
void pw_collector_collected(struct pw_collector *collector, uint64_t live);

// The request for which one was asked comes again: `live` pages are there at `now`. Where memory
// was short the collection ends here. Another one could not be seen: R makes none while it converts
// a vector (R_GCEnabled in its memory.c), or announces none, as gc.time was switched off. Returns
// the pages that are gone.
uint64_t pw_collector_asked_again(struct pw_collector *collector, uint64_t live, uint64_t now);

#endif
