// SPDX-License-Identifier: MIT
//
// When to ask the language runtime for a garbage collection because memory is short. A full one
// takes R .1 s and more; swapping, or being killed, costs more. What a collection gives back is
// garbage made since the last one, or nothing: then asking again waits for twice as much.
#ifndef PW_POLICY_RELIEF_H
#define PW_POLICY_RELIEF_H

#include <stdbool.h>
#include <stdint.h>

// Zeroed memory is a valid start. Sizes in pages, times in nanoseconds where nothing else is said.
struct pw_relief {
    uint64_t after;        // live memory when the last collection ended
    uint64_t looked_at;    // live memory when the room was last looked at since then
    uint64_t plenty_below; // below that much live memory there was room at the last look
    uint64_t plenty_since; // when that was, ms
    uint64_t before;       // live memory when a collection was asked for
    uint64_t asked_at;     // 0: none is under way
    uint64_t began;        // first time asked
    uint64_t spent;        // on collections asked for
    unsigned fruitless;    // log2 of how much more garbage the next one waits for
    bool is_deadly;        // without the collection asked for the program would be killed
};

// Is it worth looking how much room there is, with `live` pages after the request?
// The look itself takes tens of microseconds: it reads up to a dozen small files.
bool pw_relief_is_due(struct pw_relief *relief, uint64_t live, uint64_t now_ms);

// There are `room` pages. Looking again can wait until a part of them is used.
void pw_relief_looked(struct pw_relief *relief, uint64_t room, uint64_t live, uint64_t now_ms);

// Do `request` more pages call for a collection, with `room` pages left, `warm` ones of our own,
// and `live` after the request?
bool pw_relief_is_short(uint64_t room, uint64_t warm, uint64_t request, uint64_t live);

// Room is short, with `swap` pages of swap left. True: ask now; the runtime's next request ends it.
// Where there is swap, collections take a quarter of the time at most; where there is none, the
// program would be killed, and any time is worth it.
bool pw_relief_ask(struct pw_relief *relief, uint64_t live, uint64_t swap, uint64_t now);

// The collection asked for is over; returns the pages it freed.
uint64_t pw_relief_ended(struct pw_relief *relief, uint64_t live, uint64_t now);

// Any collection is over.
void pw_relief_collected(struct pw_relief *relief, uint64_t live);

#endif
