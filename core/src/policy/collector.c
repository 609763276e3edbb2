// SPDX-License-Identifier: MIT
#include "policy/collector.h"

#include "policy/page.h"

#define MEGABYTE    ((uint64_t)PW_MEGABYTE_PAGES)
#define MILLISECOND ((uint64_t)1000000)

// The reasons differ in these, and in nothing that could be one number for all: a collection that
// keeps the program alive may take more time than one that makes it smaller.
// Tuned on b25-1 to b25-4, glmnet, lda and gbm: time and garbage of `cheap` and `peak`, and the
// four full collections (docs/notes/experiments/collections.md).
static const struct rule {
    uint64_t least_garbage;
    unsigned garbage_part; // so much garbage at least: of what lived, or, before a peak, is live
    unsigned time_part;    // of the time that is counted
    unsigned useful_part;  // useful is what frees such a part of what was live before
    unsigned most_in_vain; // doublings of the garbage that the next one waits for, or, where they
    bool gives_up;         // do not double it, so many until the runtime's own have found much
    bool forgives;         // one of use makes up for all in vain, not for one
} rules[PW_REASONS] = {
    [PW_REASON_SHORT] = {.least_garbage = 16 * MEGABYTE,
                         .garbage_part = 16,
                         .time_part = 4,
                         .useful_part = 16,
                         .most_in_vain = 6,
                         .forgives = true},
    [PW_REASON_CHEAP] = {.least_garbage = 64 * MEGABYTE, // R itself begins with that
                         .garbage_part = 2,
                         .time_part = 8,
                         .useful_part = 4,
                         .most_in_vain = 3,
                         .gives_up = true,
                         .forgives = true},
    [PW_REASON_PEAK] = {.least_garbage = 64 * MEGABYTE,
                        .garbage_part = 5,
                        .time_part = 20,
                        .useful_part = 4,
                        .most_in_vain = 6},
};

// A look at the room. Tuned on loops over vectors of 1 MB, of whose time looks were 7 %: what is
// plenty (docs/design/collections.md).
#define ROOM_STEP    (4 * MEGABYTE)  // far more to fill than looking costs
#define PLENTY_PART  16u             // of the room: until that is used the room is not looked at,
#define OTHERS_TAKE  (16 * MEGABYTE) // but after the time in which others, which clear so much in
#define PLENTY_MS    50u             // a millisecond at most, could take half of it: at least,
#define LONGEST_MS   1000u           // and at most
#define LEAST_MARGIN (8 * MEGABYTE)  // for what is not R's, and what we do not see in time
#define MOST_MARGIN  (32 * MEGABYTE)
#define MARGIN_PART  16u // of live memory

// A look at the clock.
#define CLOCK_STEP (2 * MEGABYTE)

// What counts as full. Tuned on the mlr workloads: a minor collection takes up to 10 ms there, one
// of the middle generation up to 25 (docs/notes/experiments/collections.md, "What counts as full").
#define OF_LATE          (4000 * MILLISECOND)
#define FULL_AT_LEAST    (10 * MILLISECOND)   // until one was asked for and timed
#define LONGEST_PART     4u                   // nor is it full if it takes less of the longest
#define FADING_PART      64u                  // of the longest, with each one since
#define LONGEST_BELIEVED (1000 * MILLISECOND) // R asks for the time elsewhere, too

// Before a peak, since the last full one: in times what that took, and at least. Else R's heap
// grows, where it grew of late. Tuned on ada, kknn, lda, logreg, rda and the README's example
// (docs/notes/experiments/collections.md, "Time since R's last full one, before a peak").
#define PEAK_APART     5u
#define APART_AT_LEAST (1400 * MILLISECOND)

static uint64_t higher(uint64_t one, uint64_t other) {
    return one > other ? one : other;
}

static uint64_t lower(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

static uint64_t excess(uint64_t one, uint64_t other) {
    return one > other ? one - other : 0;
}

// A clock may be behind: another thread's, that called getrusage.
static uint64_t since(uint64_t then, uint64_t now) {
    return excess(now, then);
}

void pw_collector_forget(struct pw_collector *collector) {
    *collector = (struct pw_collector){
        .of[PW_REASON_SHORT] = collector->of[PW_REASON_SHORT],
        .after = collector->after,
        .highest_resident = collector->highest_resident,
        .plenty_below = collector->plenty_below,
        .plenty_since = collector->plenty_since,
        .plenty_ms = collector->plenty_ms,
        .first_asked = collector->first_asked,
    };
}

void pw_collector_forget_times(struct pw_collector *collector) {
    collector->longest = collector->full_took = collector->last_took = 0;
}

// --- garbage -----------------------------------------------------------------

// What lives varies in the course of a computation, and one in folds has most alive once in each:
// hence the highest of the last full ones.
static uint64_t lives(const struct pw_collector *collector) {
    uint64_t most = 0;
    for (unsigned i = 0; i < PW_COLLECTOR_FLOORS; i++) {
        most = higher(most, collector->floors[i]);
    }
    return most;
}

// How much garbage there must be, where it is measured by `base` pages.
static uint64_t enough(const struct pw_collector *collector, enum pw_reason reason, uint64_t base) {
    const struct rule *rule = &rules[reason];
    uint64_t least = higher(base / rule->garbage_part, rule->least_garbage);
    return rule->gives_up ? least : least << collector->of[reason].in_vain;
}

// The request does not count before a peak: it is no garbage, and there is nothing to spare there.
static bool has_garbage(const struct pw_collector *collector, enum pw_reason reason, uint64_t live,
                        uint64_t request) {
    uint64_t lived = lives(collector);
    switch (reason) {
    case PW_REASON_SHORT: // what any collection left
        return live + request >= collector->after + enough(collector, reason, collector->after);
    case PW_REASON_CHEAP:
        return live + request > lived + enough(collector, reason, lived);
    default:
        return live > lived + enough(collector, reason, live);
    }
}

// --- budget and back-off -----------------------------------------------------

// May the next one, that takes `next`, be paid from `time`?
static bool is_affordable(const struct pw_collector *collector, enum pw_reason reason,
                          uint64_t next, uint64_t time) {
    return collector->of[reason].spent + next <= time / rules[reason].time_part;
}

static bool is_cheap(const struct pw_collector *collector, uint64_t now) {
    uint64_t running = collector->running + since(collector->until, now);
    return is_affordable(collector, PW_REASON_CHEAP, collector->full_took, running);
}

static void note_use(struct pw_collector *collector, enum pw_reason reason, bool useful) {
    unsigned *in_vain = &collector->of[reason].in_vain;
    if (useful) {
        *in_vain = rules[reason].forgives ? 0 : *in_vain - (*in_vain > 0);
    } else if (*in_vain < rules[reason].most_in_vain) {
        (*in_vain)++;
    }
}

// R takes a full one in vain as a reason to let its heap grow. So none is asked for because it is
// cheap until R's own have found much, nor after some in a row that were in vain.
static bool may_be_of_use(const struct pw_collector *collector) {
    return collector->found_much &&
           collector->of[PW_REASON_CHEAP].in_vain < rules[PW_REASON_CHEAP].most_in_vain;
}

// --- looks -------------------------------------------------------------------

static bool has_plenty(const struct pw_collector *collector, uint64_t live, uint64_t now_ms) {
    return live < collector->plenty_below &&
           now_ms - collector->plenty_since < collector->plenty_ms;
}

static bool has_grown(struct pw_collector *collector, enum pw_reason reason, uint64_t live,
                      uint64_t step) {
    return live >= collector->of[reason].looked_at + step;
}

bool pw_collector_may_look_at_room(struct pw_collector *collector, uint64_t live, uint64_t now_ms) {
    if (!has_garbage(collector, PW_REASON_SHORT, live, 0) ||
        !has_grown(collector, PW_REASON_SHORT, live, ROOM_STEP) ||
        has_plenty(collector, live, now_ms)) {
        return false;
    }
    collector->of[PW_REASON_SHORT].looked_at = live;
    return true;
}

void pw_collector_saw_room(struct pw_collector *collector, uint64_t room, uint64_t live,
                           uint64_t now_ms) {
    collector->plenty_below = live + room / PLENTY_PART;
    collector->plenty_since = now_ms;
    collector->plenty_ms = lower(higher(room / 2 / OTHERS_TAKE, PLENTY_MS), LONGEST_MS);
    collector->room = room;
}

static bool is_worth_it(const struct pw_collector *collector, uint64_t live, uint64_t request) {
    return may_be_of_use(collector) && has_garbage(collector, PW_REASON_CHEAP, live, request);
}

static bool is_worth_it_at_peak(const struct pw_collector *collector, uint64_t live) {
    return collector->last_full && has_garbage(collector, PW_REASON_PEAK, live, 0);
}

bool pw_collector_may_look_at_clock(struct pw_collector *collector, uint64_t live,
                                    uint64_t request) {
    bool worth = is_worth_it(collector, live, request) || is_worth_it_at_peak(collector, live);
    if (collector->asked || !worth ||
        !has_grown(collector, PW_REASON_CHEAP, live + request, CLOCK_STEP)) {
        return false;
    }
    collector->of[PW_REASON_CHEAP].looked_at = live + request;
    return true;
}

// --- reasons -----------------------------------------------------------------

static uint64_t margin(uint64_t live) {
    return lower(higher(live / MARGIN_PART, LEAST_MARGIN), MOST_MARGIN);
}

bool pw_collector_is_short(uint64_t room, uint64_t warm, uint64_t request, uint64_t live) {
    return room < excess(request, warm) + margin(live);
}

uint64_t pw_collector_spare(const struct pw_collector *collector, uint64_t warm, uint64_t request) {
    return lower(excess(MOST_MARGIN, collector->room), excess(warm, request));
}

bool pw_collector_is_peak(const struct pw_collector *collector, uint64_t resident, uint64_t fresh) {
    return resident + fresh > collector->highest_resident;
}

void pw_collector_saw_resident(struct pw_collector *collector, uint64_t resident) {
    collector->highest_resident = higher(collector->highest_resident, resident);
}

// --- asking ------------------------------------------------------------------

// Where there is no swap, the program would be killed, and any time is worth it.
static bool may_ask_when_short(struct pw_collector *collector,
                               const struct pw_collector_facts *facts) {
    if (collector->first_asked == 0) {
        collector->first_asked = facts->now;
    }
    collector->is_deadly = facts->swap < MOST_MARGIN;
    uint64_t time = facts->now - collector->first_asked;
    return collector->is_deadly || is_affordable(collector, PW_REASON_SHORT, 0, time);
}

static bool may_ask_as_cheap(const struct pw_collector *collector,
                             const struct pw_collector_facts *facts) {
    return is_worth_it(collector, facts->live, facts->request) && is_cheap(collector, facts->now);
}

// Where the rule for cheap ones is in force it is left to that one, which asks for more garbage.
// Copies that share their pages may all be garbage, and to free them would give back nothing.
static bool may_ask_at_peak(const struct pw_collector *collector,
                            const struct pw_collector_facts *facts) {
    uint64_t took = collector->last_took;
    bool in_force = may_be_of_use(collector) && is_cheap(collector, facts->now);
    return is_worth_it_at_peak(collector, lower(facts->live, facts->resident)) && !in_force &&
           is_affordable(collector, PW_REASON_PEAK, took, facts->now) &&
           since(collector->last_full, facts->now) >= higher(PEAK_APART * took, APART_AT_LEAST);
}

static bool may_ask(struct pw_collector *collector, enum pw_reason reason,
                    const struct pw_collector_facts *facts) {
    switch (reason) {
    case PW_REASON_SHORT:
        return may_ask_when_short(collector, facts);
    case PW_REASON_CHEAP:
        return may_ask_as_cheap(collector, facts);
    default:
        return may_ask_at_peak(collector, facts);
    }
}

bool pw_collector_ask(struct pw_collector *collector, enum pw_reason reason,
                      const struct pw_collector_facts *facts) {
    if (!may_ask(collector, reason, facts) || collector->asked) {
        return false;
    }
    if (reason == PW_REASON_SHORT) { // on another clock than the collector's start
        collector->asked_at = facts->now;
        collector->before = facts->live;
    } else {
        pw_collector_began(collector, facts->live, facts->now);
    }
    collector->asked = reason;
    return true;
}

// --- what becomes of it ------------------------------------------------------

// One that was asked for because memory was short counts as the runtime's own here.
static bool was_asked(const struct pw_collector *collector) {
    return collector->asked && collector->asked != PW_REASON_SHORT;
}

void pw_collector_began(struct pw_collector *collector, uint64_t live, uint64_t now) {
    if (!was_asked(collector)) { // else it began where it was asked for
        collector->began = now ? now : 1;
        collector->began_with = live;
    }
}

// R tells by nothing but the time that it takes what kind of collection it was.
static bool was_full(const struct pw_collector *collector, uint64_t took) {
    uint64_t least = higher(collector->longest / LONGEST_PART, FULL_AT_LEAST);
    return was_asked(collector) || took > (collector->full_took ? collector->full_took / 2 : least);
}

static bool found_much(const struct pw_collector *collector, uint64_t live) {
    uint64_t before = collector->began_with;
    return collector->began && live < before - before / rules[PW_REASON_CHEAP].useful_part;
}

static void judge(struct pw_collector *collector, uint64_t live) {
    if (found_much(collector, live)) {
        collector->found_much = true;
        note_use(collector, PW_REASON_CHEAP, true);
        note_use(collector, PW_REASON_PEAK, true);
    } else if (was_asked(collector)) {
        note_use(collector, collector->asked, false);
    }
}

// What was longer ago counts less and less.
static void count_time(struct pw_collector *collector, uint64_t took, uint64_t now) {
    uint64_t *collecting = &collector->of[PW_REASON_CHEAP].spent;
    collector->running += since(collector->until, now);
    collector->until = now;
    while (collector->running > OF_LATE) {
        collector->running /= 2;
        *collecting /= 2;
    }
    *collecting += took;
}

static void note_full(struct pw_collector *collector, uint64_t live, uint64_t took, uint64_t now) {
    for (unsigned i = PW_COLLECTOR_FLOORS - 1; i > 0; i--) {
        collector->floors[i] = collector->floors[i - 1];
    }
    collector->floors[0] = live;
    collector->last_took = took;
    collector->last_full = now ? now : 1;
    judge(collector, live);
}

// Of the one that is under way; returns the pages that are gone.
static uint64_t conclude(struct pw_collector *collector, uint64_t live, uint64_t took,
                         uint64_t now) {
    bool asked = was_asked(collector);
    uint64_t freed = asked ? excess(collector->began_with, live) : 0;
    collector->of[PW_REASON_PEAK].spent += collector->asked == PW_REASON_PEAK ? took : 0;
    count_time(collector, took, now);
    collector->asked = asked ? PW_REASON_NONE : collector->asked;
    collector->began = 0;
    collector->of[PW_REASON_CHEAP].looked_at = live;
    return freed;
}

uint64_t pw_collector_ended(struct pw_collector *collector, uint64_t live, uint64_t now) {
    bool was_seen = collector->began != 0, asked = was_asked(collector);
    uint64_t took = was_seen ? since(collector->began, now) : 0;
    took = took > LONGEST_BELIEVED && !asked ? LONGEST_BELIEVED : took;
    collector->longest = higher(took, collector->longest - collector->longest / FADING_PART);
    if (was_full(collector, took)) {
        note_full(collector, live, took, now);
    }
    collector->full_took = asked ? took : collector->full_took;
    uint64_t freed = conclude(collector, live, took, now);
    if (!was_seen) { // it may have been the start of one for small objects alone
        pw_collector_began(collector, live, now);
    }
    return freed;
}

void pw_collector_collected(struct pw_collector *collector, uint64_t live) {
    collector->after = collector->of[PW_REASON_SHORT].looked_at = live;
}

static uint64_t short_ended(struct pw_collector *collector, uint64_t live, uint64_t now) {
    uint64_t before = collector->before, freed = excess(before, live);
    bool useful = freed >= before / rules[PW_REASON_SHORT].useful_part;
    collector->of[PW_REASON_SHORT].spent += now - collector->asked_at;
    collector->asked = PW_REASON_NONE;
    note_use(collector, PW_REASON_SHORT, useful || collector->is_deadly);
    pw_collector_collected(collector, live);
    return freed;
}

uint64_t pw_collector_asked_again(struct pw_collector *collector, uint64_t live, uint64_t now) {
    if (collector->asked == PW_REASON_SHORT) {
        return short_ended(collector, live, now);
    }
    note_use(collector, collector->asked, false);
    return conclude(collector, live, since(collector->began, now), now);
}
