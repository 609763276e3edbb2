// SPDX-License-Identifier: MIT
#include "policy/copy.h"

#define HIGHEST_SCORE             16
#define LOWEST_SCORE              (-4)
#define RETRY_EVERY               32u
#define FIRST_SCORE_OF_EXTENSIONS 1
// Sharing an already published source costs a mapping, and later faults; a warm copy of less than
// this is cheaper (1 MB).
#define SMALLEST_WARM_SHARE_PAGES 256u

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

// A package's own C code that copies a whole vector does so to work on the copy, as solve() does
// for LAPACK; R itself duplicates because somebody else may still look.
static void begin(struct pw_prediction *prediction, const struct pw_copy_question *question) {
    if (!prediction->known && prediction->score == 0 && question->by_extension) {
        prediction->score = FIRST_SCORE_OF_EXTENSIONS;
    }
    prediction->known = true;
}

static bool expects_overwrite(struct pw_prediction *prediction) {
    return prediction->score > 0 && ++prediction->skipped % RETRY_EVERY != 0;
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
    bool warm = question->destination_warm * 2 > question->destination_pages;
    if (!clean) {
        if (!warm) {
            return PW_COPY_PUBLISH;
        }
        return question->published ? PW_COPY_PLAIN_DIRTY : PW_COPY_PLAIN_WARM;
    }
    if (warm && question->destination_pages < SMALLEST_WARM_SHARE_PAGES) {
        return PW_COPY_PLAIN_WARM;
    }
    return PW_COPY_SHARE;
}
