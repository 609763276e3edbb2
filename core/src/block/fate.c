// SPDX-License-Identifier: MIT
#include "block/fate.h"
#include "process/state.h"

static bool is_live(struct pw_process *process, uint32_t number, uint32_t generation) {
    const struct pw_extent *extent = pw_extent_at(&process->arena, number);
    return extent->generation == generation && extent->state == PW_EXTENT_USED;
}

// The destination of a copy may be one itself, which ends now. Its pages are still to be judged.
static void is_overwritten(struct pw_process *process, const struct pw_extent *copy, uint64_t now) {
    if (copy->born) {
        struct pw_prediction *prediction =
            pw_predictor_entry(&process->predictor, copy->pages, copy->site);
        pw_predictor_ended(prediction, &(struct pw_copy_end){.born = copy->born, .now = now});
    }
}

void pw_fate_begins(struct pw_process *process, struct pw_prediction *prediction,
                    struct pw_extent *destination, const struct pw_copy_question *question) {
    is_overwritten(process, destination, question->now);
    pw_predictor_born(prediction, question->now);
    destination->site = question->site;
    destination->born = question->now;
}

static void watch(struct pw_process *process, struct pw_prediction *prediction,
                  const struct pw_extent *destination) {
    prediction->watched = pw_extent_number(&process->arena, destination);
    prediction->generation = destination->generation;
    prediction->source = 0;
}

void pw_fate_watch_shared(struct pw_process *process, struct pw_prediction *prediction,
                          struct pw_extent *destination) {
    if (!prediction->watched || prediction->source) {
        watch(process, prediction, destination);
    }
}

void pw_fate_watch_plain(struct pw_process *process, struct pw_prediction *prediction,
                         struct pw_extent *destination, uint32_t to, struct pw_extent *source,
                         uint32_t from, uint32_t pages) {
    if (prediction->watched) {
        return;
    }
    watch(process, prediction, destination);
    prediction->source = pw_extent_number(&process->arena, source);
    prediction->source_generation = source->generation;
    prediction->to = to;
    prediction->from = from;
    prediction->pages = pages;
    destination->watched = true;
}

// --- plain copies ------------------------------------------------------------

// How many of a few pages, spread evenly, are still the same on both sides. -1: not known.
static int count_same(struct pw_process *process, const struct pw_prediction *prediction,
                      unsigned *sampled) {
    struct pw_arena *arena = &process->arena;
    const struct pw_extent *destination = pw_extent_at(arena, prediction->watched);
    const struct pw_extent *source = pw_extent_at(arena, prediction->source);
    uint32_t pages[PW_OS_PEEK_PAGES];
    unsigned count = prediction->pages < PW_OS_PEEK_PAGES ? prediction->pages : PW_OS_PEEK_PAGES;
    for (unsigned i = 0; i < count; i++) {
        pages[i] = (uint32_t)((uint64_t)prediction->pages * i / count);
    }
    *sampled = count;
    return pw_os_same_pages(
        pw_extent_address(arena, destination) + (size_t)prediction->to * PW_PAGE,
        pw_extent_address(arena, source) + (size_t)prediction->from * PW_PAGE, pages, count);
}

// What the program has done something to may not be readable, or wait for somebody who is to fill
// it.
static bool may_compare(struct pw_process *process, const struct pw_prediction *prediction) {
    return is_live(process, prediction->source, prediction->source_generation) &&
           !pw_extent_at(&process->arena, prediction->source)->altered &&
           !pw_extent_at(&process->arena, prediction->watched)->altered;
}

static void judge_plain(struct pw_process *process, struct pw_prediction *prediction) {
    unsigned sampled = 0;
    int same = may_compare(process, prediction) ? count_same(process, prediction, &sampled) : -1;
    if (same >= 0) {
        pw_predictor_report(prediction, sampled - (unsigned)same, sampled, true);
    }
    prediction->watched = 0;
}

// --- shared copies -----------------------------------------------------------

static bool is_shared_copy(const struct pw_extent *extent) {
    return extent->copied && pw_extent_is_shared(extent);
}

static uint32_t copied_pages(const struct pw_extent *copy) {
    return copy->snapshot ? copy->share_pages : copy->copy_pages;
}

// How many of its pages a shared copy no longer shares. False: not known.
static bool count_written(struct pw_process *process, const struct pw_extent *copy,
                          uint64_t *written) {
    return copy->snapshot ? pw_share_count_private(&process->share, copy, copy->share_first,
                                                   copy->share_pages, written)
                          : pw_share_estimate_private(&process->share, copy, written);
}

static void judge_shared(struct pw_process *process, struct pw_prediction *prediction) {
    struct pw_extent *last = pw_extent_at(&process->arena, prediction->watched);
    uint64_t written = 0;
    if (!is_shared_copy(last) || last->judged) {
        prediction->watched = 0;
    } else if (count_written(process, last, &written) && written * 2 > copied_pages(last)) {
        pw_predictor_report(prediction, written, copied_pages(last), false);
        PW_COUNT(&process->stats, predictor_misses, 1);
        last->judged = true;
        prediction->watched = 0;
    }
}

void pw_fate_look(struct pw_process *process, struct pw_prediction *prediction) {
    if (!prediction->watched) {
        return;
    }
    if (!is_live(process, prediction->watched, prediction->generation)) {
        prediction->watched = 0;
    } else if (prediction->source) {
        judge_plain(process, prediction);
    } else {
        judge_shared(process, prediction);
    }
}

// --- the end -----------------------------------------------------------------

// Of a shared copy, unless it was judged before. False: not known.
static bool see_written(struct pw_process *process, const struct pw_extent *copy,
                        struct pw_copy_end *end) {
    if (!is_shared_copy(copy) || copy->judged || !count_written(process, copy, &end->written)) {
        return false;
    }
    end->pages = copied_pages(copy);
    return true;
}

static void count_end(struct pw_process *process, uint64_t written, bool overwritten) {
    PW_COUNT(&process->stats, private_copy_bytes, written * PW_PAGE);
    if (overwritten) {
        PW_COUNT(&process->stats, predictor_misses, 1);
    } else {
        PW_COUNT(&process->stats, predictor_hits, 1);
    }
}

static bool is_watched(struct pw_process *process, const struct pw_prediction *prediction,
                       const struct pw_extent *extent) {
    return prediction->watched && prediction->generation == extent->generation &&
           pw_extent_at(&process->arena, prediction->watched) == extent;
}

void pw_fate_ends(struct pw_process *process, struct pw_extent *extent) {
    if (!extent->born && !extent->watched && !is_shared_copy(extent)) {
        return;
    }
    struct pw_prediction *prediction =
        pw_predictor_entry(&process->predictor, extent->pages, extent->site);
    if (is_watched(process, prediction, extent)) {
        if (prediction->source) {
            judge_plain(process, prediction);
        }
        prediction->watched = 0;
    }
    struct pw_copy_end end = {.born = extent->born, .now = pw_os_now_ms()};
    bool seen = see_written(process, extent, &end);
    bool overwritten = pw_predictor_ended(prediction, &end);
    if (seen) {
        count_end(process, end.written, overwritten);
    }
    extent->born = 0;
}
