// SPDX-License-Identifier: MIT
#include "policy/early.h"

#define MEGABYTE         ((uint64_t)256) // in pages
#define GARBAGE_PERCENT  50u             // of what the last full collections left
#define LEAST_GARBAGE    (64 * MEGABYTE) // R itself begins with that
#define MUCH_PART        4u              // of what was live before
#define MOST_IN_VAIN     3u              // in a row
#define LOOK_STEP        (2 * MEGABYTE)
#define COLLECTING_PART  8u // of the time of late: not asked where collections take more
#define MILLISECOND      ((uint64_t)1000000)
#define OF_LATE          (4000 * MILLISECOND)
#define FULL_AT_LEAST    (10 * MILLISECOND)   // until one was asked for and timed
#define LONGEST_PART     4u                   // nor is it full if it takes less of the longest
#define FADING_PART      64u                  // of the longest, with each one since
#define LONGEST_BELIEVED (1000 * MILLISECOND) // R asks for the time elsewhere, too

// Before a new peak.
#define PEAK_GARBAGE_PART 5u                   // of what is live
#define PEAKS_PART        20u                  // of all time
#define PEAK_APART        5u                   // since the last full one, in times what it took
#define APART_AT_LEAST    (1400 * MILLISECOND) // else R's heap grows, where it grew of late
#define MOST_PEAKS_VAIN   6u

static uint64_t higher(uint64_t one, uint64_t other) {
    return one > other ? one : other;
}

static uint64_t lower(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

// What lives varies in the course of a computation, and one in folds has most alive once in each:
// hence the highest of the last full ones.
static uint64_t lives(const struct pw_early *early) {
    uint64_t most = 0;
    for (unsigned i = 0; i < PW_EARLY_FLOORS; i++) {
        most = higher(most, early->floors[i]);
    }
    return most;
}

static bool has_garbage(const struct pw_early *early, uint64_t live, uint64_t request) {
    uint64_t alive = lives(early);
    uint64_t least = higher(alive * GARBAGE_PERCENT / 100, LEAST_GARBAGE);
    return early->vain_left > 0 && live + request > alive + least;
}

// The request does not count: it is no garbage, and here there is nothing to spare.
static bool has_garbage_at_peak(const struct pw_early *early, uint64_t live) {
    uint64_t least = higher(live / PEAK_GARBAGE_PART, LEAST_GARBAGE) << early->peaks_vain;
    return early->last_full && live > lives(early) + least;
}

bool pw_early_is_due(struct pw_early *early, uint64_t live, uint64_t request) {
    bool garbage = has_garbage(early, live, request) || has_garbage_at_peak(early, live);
    if (early->asked || !garbage || live + request < early->looked_at + LOOK_STEP) {
        return false;
    }
    early->looked_at = live + request;
    return true;
}

// A clock may be behind: another thread's, that called getrusage.
static uint64_t since(uint64_t then, uint64_t now) {
    return now > then ? now - then : 0;
}

void pw_early_began(struct pw_early *early, uint64_t live, uint64_t now) {
    if (!early->asked) { // else it began where it was asked for
        early->began = now ? now : 1;
        early->began_with = live;
    }
}

static bool is_cheap(const struct pw_early *early, uint64_t now) {
    uint64_t running = early->running + since(early->until, now);
    return early->collecting + early->full_took <= running / COLLECTING_PART;
}

static bool ask(struct pw_early *early, uint64_t live, uint64_t now, bool at_peak) {
    pw_early_began(early, live, now);
    early->asked = true;
    early->at_peak = at_peak;
    return true;
}

bool pw_early_ask(struct pw_early *early, uint64_t live, uint64_t request, uint64_t now) {
    return has_garbage(early, live, request) && is_cheap(early, now) &&
           ask(early, live, now, false);
}

// Where the other rule is in force it is left to that one, which asks for more garbage. Copies that
// share their pages may all be garbage, and to free them would give back nothing.
bool pw_early_ask_at_peak(struct pw_early *early, uint64_t live, uint64_t resident, uint64_t now) {
    uint64_t apart = since(early->last_full, now);
    bool in_force = early->vain_left > 0 && is_cheap(early, now);
    bool affordable = early->peaks_spent + early->last_took <= now / PEAKS_PART;
    return has_garbage_at_peak(early, lower(live, resident)) && !in_force && affordable &&
           apart >= higher(PEAK_APART * early->last_took, APART_AT_LEAST) &&
           ask(early, live, now, true);
}

// R tells by nothing but the time that it takes what kind of collection it was.
static bool was_full(const struct pw_early *early, uint64_t took) {
    uint64_t least = higher(early->longest / LONGEST_PART, FULL_AT_LEAST);
    return early->asked || took > (early->full_took ? early->full_took / 2 : least);
}

static void was_in_vain(struct pw_early *early) {
    if (early->at_peak && early->peaks_vain < MOST_PEAKS_VAIN) {
        early->peaks_vain++;
    } else if (!early->at_peak && early->vain_left > 0) {
        early->vain_left--;
    }
}

// After a full collection. R takes one in vain as a reason to let its heap grow. So none is asked
// for until R's own full ones have found much, nor after some in a row that were in vain.
static void judge(struct pw_early *early, uint64_t live) {
    bool found_much = early->began && live < early->began_with - early->began_with / MUCH_PART;
    if (found_much) {
        early->vain_left = MOST_IN_VAIN;
        early->peaks_vain -= early->peaks_vain > 0;
    } else if (early->asked) {
        was_in_vain(early);
    }
}

// What was longer ago counts less and less.
static void count_time(struct pw_early *early, uint64_t took, uint64_t now) {
    early->running += since(early->until, now);
    early->until = now;
    while (early->running > OF_LATE) {
        early->running /= 2;
        early->collecting /= 2;
    }
    early->collecting += took;
}

static void note_full(struct pw_early *early, uint64_t live, uint64_t took, uint64_t now) {
    for (unsigned i = PW_EARLY_FLOORS - 1; i > 0; i--) {
        early->floors[i] = early->floors[i - 1];
    }
    early->floors[0] = live;
    early->last_took = took;
    early->last_full = now ? now : 1;
    judge(early, live);
}

// Of the one that is under way; returns the pages that are gone.
static uint64_t conclude(struct pw_early *early, uint64_t live, uint64_t took, uint64_t now) {
    uint64_t freed = early->asked && early->began_with > live ? early->began_with - live : 0;
    early->peaks_spent += early->asked && early->at_peak ? took : 0;
    count_time(early, took, now);
    early->asked = false;
    early->began = 0;
    early->looked_at = live;
    return freed;
}

uint64_t pw_early_unseen(struct pw_early *early, uint64_t live, uint64_t now) {
    was_in_vain(early);
    return conclude(early, live, since(early->began, now), now);
}

uint64_t pw_early_ended(struct pw_early *early, uint64_t live, uint64_t now) {
    bool was_seen = early->began != 0;
    uint64_t took = was_seen ? since(early->began, now) : 0;
    took = took > LONGEST_BELIEVED && !early->asked ? LONGEST_BELIEVED : took;
    early->longest = higher(took, early->longest - early->longest / FADING_PART);
    if (was_full(early, took)) {
        note_full(early, live, took, now);
    }
    early->full_took = early->asked ? took : early->full_took;
    uint64_t freed = conclude(early, live, took, now);
    if (!was_seen) { // it may have been the start of one for small objects alone
        pw_early_began(early, live, now);
    }
    return freed;
}
