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
#define LONGEST_BELIEVED (1000 * MILLISECOND) // R asks for the time elsewhere, too

// What lives varies in the course of a computation, hence the higher one of two.
static uint64_t ceiling(const struct pw_early *early) {
    uint64_t latest = early->floors[0], earlier = early->floors[1];
    uint64_t lives = latest > earlier ? latest : earlier;
    uint64_t part = lives * GARBAGE_PERCENT / 100;
    return lives + (part > LEAST_GARBAGE ? part : LEAST_GARBAGE);
}

bool pw_early_is_due(struct pw_early *early, uint64_t live) {
    if (early->asked || early->vain_left == 0 || live <= ceiling(early) ||
        live < early->looked_at + LOOK_STEP) {
        return false;
    }
    early->looked_at = live;
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

bool pw_early_ask(struct pw_early *early, uint64_t live, uint64_t now) {
    uint64_t running = early->running + since(early->until, now);
    if (early->collecting + early->full_took > running / COLLECTING_PART) {
        return false;
    }
    pw_early_began(early, live, now);
    early->asked = true;
    return true;
}

// R tells by nothing but the time that it takes what kind of collection it was.
static bool was_full(const struct pw_early *early, uint64_t took) {
    return early->asked || took > (early->full_took ? early->full_took / 2 : FULL_AT_LEAST);
}

// After a full collection. R takes one in vain as a reason to let its heap grow. So none is asked
// for until R's own full ones have found much, nor after some in a row that were in vain.
static void judge(struct pw_early *early, uint64_t live) {
    bool found_much = early->began && live < early->began_with - early->began_with / MUCH_PART;
    if (found_much) {
        early->vain_left = MOST_IN_VAIN;
    } else if (early->asked && early->vain_left > 0) {
        early->vain_left--;
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

uint64_t pw_early_ended(struct pw_early *early, uint64_t live, uint64_t now) {
    bool was_seen = early->began != 0;
    uint64_t took = was_seen ? since(early->began, now) : 0;
    took = took > LONGEST_BELIEVED && !early->asked ? LONGEST_BELIEVED : took;
    uint64_t freed = early->asked && early->began_with > live ? early->began_with - live : 0;
    if (was_full(early, took)) {
        early->floors[1] = early->floors[0];
        early->floors[0] = live;
        judge(early, live);
    }
    early->full_took = early->asked ? took : early->full_took;
    count_time(early, took, now);
    early->asked = false;
    early->began = 0;
    if (!was_seen) { // it may have been the start of one for small objects alone
        pw_early_began(early, live, now);
    }
    early->looked_at = live;
    return freed;
}
