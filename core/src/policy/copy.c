// SPDX-License-Identifier: MIT
#include "policy/copy.h"

#include "policy/page.h"

#define HIGHEST_SCORE 16
#define LOWEST_SCORE  (-4)
#define RETRY_EVERY   32u
#define WATCH_EVERY   8u // at the highest score
// Tuned on `solve` of bench/r's inverse (docs/notes/experiments/sharing.md).
#define FIRST_PLAIN_SCORE 1
// Sharing costs mappings, and later faults; a warm copy of less than this is cheaper (1 MB). Tuned
// on rpart, ada, gbm, lda and randomForest (there, "Loops of brief copies").
#define SMALLEST_WARM_SHARE_PAGES PW_MEGABYTE_PAGES
// A block that is read from end to end is as fast with pages of its own, up to 8 MB and more; from
// 16 MB on only those who write little to it are thought of. Tuned on the same loops.
#define SMALLEST_BRIEF_SHARE_PAGES (16 * PW_MEGABYTE_PAGES)
#define FEWEST_LIFETIMES           4u  // before that a kind is trusted
#define MOST_LIFETIMES             64u // then older ones count half

struct pw_prediction *pw_predictor_entry(struct pw_predictor *predictor, uint32_t pages,
                                         uint64_t site) {
    uint64_t mixed = ((uint64_t)pages ^ site * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return &predictor->table[(mixed >> 40) % PW_PREDICTIONS];
}

bool pw_predictor_report(struct pw_prediction *prediction, uint64_t written, uint64_t pages,
                         bool ended) {
    bool overwritten = written * 2 > pages;
    if (overwritten) {
        // From below zero one overwrite seen early is enough to stop sharing.
        int score = prediction->score < 0 ? prediction->score + 1 + !ended : prediction->score + 2;
        score = score == 0 ? 1 : score;
        prediction->score = (int8_t)(score > HIGHEST_SCORE ? HIGHEST_SCORE : score);
    } else if (ended && prediction->score > LOWEST_SCORE) {
        prediction->score--;
    }
    return overwritten;
}

bool pw_predictor_is_curious(const struct pw_prediction *prediction) {
    return prediction->score < HIGHEST_SCORE || prediction->skipped % WATCH_EVERY == 0;
}

void pw_predictor_born(struct pw_prediction *prediction, uint64_t now) {
    prediction->lifetimes.alive++;
    prediction->lifetimes.born_sum += now;
}

static void count_ended(struct pw_lifetimes *lifetimes, uint64_t lived) {
    lifetimes->ended++;
    lifetimes->lived_sum += lived;
    if (lifetimes->ended >= MOST_LIFETIMES) {
        lifetimes->ended /= 2;
        lifetimes->lived_sum /= 2;
    }
}

bool pw_predictor_ended(struct pw_prediction *prediction, const struct pw_copy_end *end) {
    struct pw_lifetimes *lifetimes = &prediction->lifetimes;
    if (end->born) {
        lifetimes->alive--;
        lifetimes->born_sum -= end->born;
        count_ended(lifetimes, end->now - end->born);
    }
    return end->pages && pw_predictor_report(prediction, end->written, end->pages, true);
}

// What a copy saves is pages times time. Publishing and releasing costs 4 to 5 us a page more than
// a copy into warm pages (docs/design/sharing.md). The mean is that of lifetimes of which some
// are not over: all the time lived, by the number of those that ended.
static bool live_briefly(const struct pw_options *options, const struct pw_lifetimes *lifetimes,
                         uint64_t now) {
    uint64_t ages = lifetimes->alive * now - lifetimes->born_sum;
    return lifetimes->ended >= FEWEST_LIFETIMES &&
           lifetimes->lived_sum + ages < (uint64_t)lifetimes->ended * options->brief_ms;
}

// A package's own C code that copies a whole vector does so to work on the copy, as solve() does
// for LAPACK; R itself duplicates because somebody else may still look. A worker lives for a task
// or two, so that it learns too late: its first copy of a kind may well be its last.
static void begin(struct pw_prediction *prediction, const struct pw_copy_question *question) {
    bool first_is_plain = question->by_extension || question->in_worker;
    if (!prediction->known && prediction->score == 0 && first_is_plain) {
        prediction->score = FIRST_PLAIN_SCORE;
    }
    prediction->known = true;
}

static bool expects_overwrite(struct pw_prediction *prediction) {
    return prediction->score > 0 && ++prediction->skipped % RETRY_EVERY != 0;
}

static bool is_warm(const struct pw_copy_question *question) {
    return question->destination_warm * 2 > question->destination_pages;
}

static bool is_small(const struct pw_copy_question *question) {
    return question->destination_pages < SMALLEST_BRIEF_SHARE_PAGES;
}

// Of a source that is published already: a mapping, where copying would read and write all of it.
// From a certain size on it is made however briefly copies live, and one for each publishing makes
// that worth while.
static enum pw_copy_answer decide_clean(const struct pw_options *options,
                                        struct pw_prediction *prediction,
                                        const struct pw_copy_question *question, bool brief) {
    if (!is_small(question)) {
        count_ended(&prediction->lifetimes, 3 * (uint64_t)options->brief_ms);
        return PW_COPY_SHARE;
    }
    return brief ? PW_COPY_PLAIN_BRIEF : PW_COPY_SHARE;
}

// A large source is published now and then all the same: its brief copies may have become many.
static enum pw_copy_answer decide_publishing(struct pw_prediction *prediction,
                                             const struct pw_copy_question *question, bool brief) {
    if (question->published && is_warm(question)) {
        return PW_COPY_PLAIN_DIRTY;
    }
    if (brief && (is_small(question) || ++prediction->brief % RETRY_EVERY != 0)) {
        return PW_COPY_PLAIN_BRIEF;
    }
    return PW_COPY_PUBLISH;
}

enum pw_copy_answer pw_copy_decide(const struct pw_options *options,
                                   struct pw_prediction *prediction,
                                   const struct pw_copy_question *question) {
    bool clean = question->published && question->written * 2 <= question->pages;
    if (options->share == PW_SHARE_ALWAYS) {
        return clean ? PW_COPY_SHARE : PW_COPY_PUBLISH;
    }
    begin(prediction, question);
    if (expects_overwrite(prediction)) {
        return PW_COPY_PLAIN_PREDICTED;
    }
    bool dirty = question->published && !clean;
    if (is_warm(question) && !dirty && question->destination_pages < SMALLEST_WARM_SHARE_PAGES) {
        return PW_COPY_PLAIN_WARM;
    }
    bool brief = live_briefly(options, &prediction->lifetimes, question->now);
    return clean ? decide_clean(options, prediction, question, brief)
                 : decide_publishing(prediction, question, brief);
}
