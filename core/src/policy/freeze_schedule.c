// SPDX-License-Identifier: MIT
#include "policy/freeze_schedule.h"

// Tuned on mlr's workloads and the ten everyday scripts for tuning
// (docs/notes/experiments/frozen.md).
#define COLLECTIONS         3 // full ones, that a first freeze is taken to cost
#define SAVED_NUMERATOR     7 // seven tenths of what full collections take more than young ones
#define SAVED_DENOMINATOR   10
#define LOOK                2  // young collections, that a look costs with the faults before it
#define LARGEST_PART        6  // of the time so far, that it may cost
#define RENEWAL_PART        64 // of the time so far, that another one may cost
#define SETTLED_PART        4  // of the time so far, in which nothing was loaded
#define TELLING             16 // collections, before and after a freeze
#define TELLING_LATER       64
#define IN_VAIN_NUMERATOR   3 // collections and looks three quarters as long were not worth it
#define IN_VAIN_DENOMINATOR 4
#define LONGEST_BELIEVED    UINT64_C(1000000000) // R asks for the time elsewhere, too

static uint64_t higher(uint64_t one, uint64_t other) {
    return one > other ? one : other;
}

static uint64_t average(const struct pw_freeze_tally *tally) {
    return tally->collections > 0 ? tally->time / tally->collections : 0;
}

static void add(struct pw_freeze_tally *tally, uint64_t took, uint64_t least) {
    tally->collections++;
    tally->time += took;
    tally->more += took > least ? took - least : 0;
}

// Soon and once more: what the program itself makes later is no fault of the freeze.
static void judge(struct pw_freeze_schedule *schedule) {
    uint64_t collections = schedule->since_frozen.collections;
    if (schedule->average_before == 0 || (collections != TELLING && collections != TELLING_LATER)) {
        return;
    }
    uint64_t most = schedule->average_before / IN_VAIN_DENOMINATOR * IN_VAIN_NUMERATOR;
    schedule->in_vain = average(&schedule->since_frozen) > most;
    schedule->average_before = collections == TELLING ? schedule->average_before : 0;
}

void pw_freeze_collection_began(struct pw_freeze_schedule *schedule, uint64_t now) {
    schedule->began = now;
}

void pw_freeze_collection_ended(struct pw_freeze_schedule *schedule, uint64_t now) {
    if (schedule->began == 0 || now < schedule->began) {
        return;
    }
    uint64_t took = now - schedule->began;
    took = took > LONGEST_BELIEVED ? LONGEST_BELIEVED : took;
    schedule->began = 0;
    if (schedule->shortest == 0 || took < schedule->shortest) {
        schedule->shortest = took;
    }
    schedule->longest = higher(schedule->longest, took);
    if (took >= schedule->longest / 2) {
        schedule->last_full = took;
    }
    uint64_t least = higher(schedule->shortest, schedule->residual);
    add(&schedule->since_loaded, took, least);
    add(&schedule->since_frozen, took, least);
    judge(schedule);
}

void pw_freeze_looked(struct pw_freeze_schedule *schedule, uint64_t took) {
    schedule->since_loaded.time += took;
    schedule->since_frozen.time += took;
}

// What was loaded since a freeze may make the next one worth it.
void pw_freeze_note_loaded(struct pw_freeze_schedule *schedule, size_t loaded, uint64_t now) {
    if (loaded == schedule->loaded && now >= schedule->loaded_at) { // a child's clock begins anew
        return;
    }
    schedule->loaded = loaded;
    schedule->loaded_at = now;
    schedule->in_vain = false;
    schedule->since_loaded = (struct pw_freeze_tally){0};
    schedule->shortest = 0;
    schedule->average_before = 0; // collections get longer by what was loaded
    if (schedule->cost > 0) {     // what it gave tells nothing of the next one
        schedule->least_cost = schedule->cost;
        schedule->residual = schedule->longest;
        schedule->cost = 0;
    }
}

// What had been frozen when the last package was loaded would have saved so much since.
static uint64_t would_have_saved(const struct pw_freeze_schedule *schedule) {
    const struct pw_freeze_tally *recent = &schedule->since_loaded;
    uint64_t saved = recent->more / SAVED_DENOMINATOR * SAVED_NUMERATOR;
    uint64_t looks = LOOK * schedule->shortest * recent->collections;
    return recent->collections >= TELLING && saved > looks ? saved - looks : 0;
}

// What is frozen and was dropped since is garbage, as much as nobody knows.
static bool may_be_renewed(const struct pw_freeze_schedule *schedule, uint64_t now) {
    uint64_t cost = higher(schedule->cost, schedule->least_cost);
    return schedule->frozen && cost <= now / RENEWAL_PART;
}

static bool pays(const struct pw_freeze_schedule *schedule, uint64_t now) {
    uint64_t cost = higher(COLLECTIONS * schedule->last_full, schedule->least_cost);
    return schedule->cost == 0 && cost <= now / LARGEST_PART && would_have_saved(schedule) > cost;
}

bool pw_freeze_pays(const struct pw_freeze_schedule *schedule, uint64_t now) {
    return !schedule->in_vain && now >= schedule->not_before &&
           now - schedule->loaded_at >= now / SETTLED_PART &&
           (pays(schedule, now) || may_be_renewed(schedule, now));
}

// Tried again when the program has run as long again: what is lost at all is a small part. What was
// frozen before as well tells nothing of what a freeze gives.
void pw_freeze_tried(struct pw_freeze_schedule *schedule, const struct pw_freeze_try *attempt) {
    uint64_t cost = attempt->end - attempt->start;
    bool first = attempt->done && !attempt->again;
    *schedule = (struct pw_freeze_schedule){
        .frozen = attempt->done,
        .cost = attempt->done ? cost : 0,
        .least_cost = attempt->done ? 0 : higher(cost, schedule->least_cost),
        .average_before = first ? average(&schedule->since_loaded) : 0,
        .not_before = 2 * attempt->end,
        .loaded = schedule->loaded,
        .loaded_at = schedule->loaded_at,
    };
}

void pw_freeze_forked(struct pw_freeze_schedule *schedule) {
    schedule->average_before = 0;
    schedule->frozen = false;
}

void pw_freeze_thawed(struct pw_freeze_schedule *schedule) {
    *schedule = (struct pw_freeze_schedule){
        .least_cost = higher(schedule->cost, schedule->least_cost),
        .not_before = schedule->not_before,
        .loaded = schedule->loaded,
        .loaded_at = schedule->loaded_at,
        .in_vain = schedule->in_vain,
    };
}
