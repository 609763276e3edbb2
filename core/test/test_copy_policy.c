// SPDX-License-Identifier: MIT
//
// The decision to share or copy, and the predictor that learns from earlier copies.
#include "policy/copy.h"
#include "policy/page.h"
#include "support.h"

static const struct pw_options lazy = {.share = PW_SHARE_LAZY, .brief_ms = 250};
static const struct pw_options patient = {.share = PW_SHARE_LAZY, .brief_ms = 0};
static const struct pw_options always = {.share = PW_SHARE_ALWAYS};

struct decision {
    const char *name;
    struct pw_copy_question question;
    enum pw_copy_answer lazily, anyway;
};

// As many as there are 4 KB: the sizes that decide are of bytes.
#define PAGES(count) ((uint32_t)(count) >> (PW_PAGE_SHIFT - 12))
#define ASK(count, warm_pages, is_published, written_pages)                                        \
    {                                                                                              \
        .pages = PAGES(count), .destination_pages = PAGES(count),                                  \
        .destination_warm = PAGES(warm_pages), .published = (is_published),                        \
        .written = PAGES(written_pages)                                                            \
    }

static const struct decision decisions[] = {
    {"new source, fresh destination", ASK(1600, 0, false, 0), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"new source, half warm", ASK(1600, 800, false, 0), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"new source, warm, large", ASK(1600, 1600, false, 0), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"new source, warm, 1 MB", ASK(256, 256, false, 0), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"new source, warm, small", ASK(255, 255, false, 0), PW_COPY_PLAIN_WARM, PW_COPY_PUBLISH},
    {"new source, more than half warm", ASK(240, 128, false, 0), PW_COPY_PLAIN_WARM,
     PW_COPY_PUBLISH},
    {"new source, half warm, small", ASK(192, 96, false, 0), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"clean source, fresh", ASK(1600, 0, true, 0), PW_COPY_SHARE, PW_COPY_SHARE},
    {"clean source, warm, large", ASK(1600, 1600, true, 0), PW_COPY_SHARE, PW_COPY_SHARE},
    {"clean source, warm, 1 MB", ASK(256, 256, true, 0), PW_COPY_SHARE, PW_COPY_SHARE},
    {"clean source, warm, small", ASK(255, 255, true, 0), PW_COPY_PLAIN_WARM, PW_COPY_SHARE},
    {"clean source, fresh, small", ASK(32, 0, true, 0), PW_COPY_SHARE, PW_COPY_SHARE},
    {"half written", ASK(1600, 0, true, 800), PW_COPY_SHARE, PW_COPY_SHARE},
    {"more than half written, fresh", ASK(1600, 0, true, 816), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
    {"more than half written, warm", ASK(1600, 1440, true, 816), PW_COPY_PLAIN_DIRTY,
     PW_COPY_PUBLISH},
    {"all written, fresh", ASK(1600, 0, true, 1600), PW_COPY_PUBLISH, PW_COPY_PUBLISH},
};

static void decisions_follow_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
        const struct decision *decision = &decisions[i];
        struct pw_prediction lazily = {0}, anyway = {0};
        int got = pw_copy_decide(&lazy, &lazily, &decision->question);
        if (got != (int)decision->lazily) {
            fail_msg("%s: %d, not %d", decision->name, got, decision->lazily);
        }
        got = pw_copy_decide(&always, &anyway, &decision->question);
        if (got != (int)decision->anyway) {
            fail_msg("%s, always: %d, not %d", decision->name, got, decision->anyway);
        }
    }
}

static const struct pw_copy_question fresh = ASK(1600, 0, false, 0);

static bool would_share(const struct pw_prediction *prediction) {
    struct pw_prediction copy = *prediction; // asking changes the retry count
    copy.skipped = 0;
    return pw_copy_decide(&lazy, &copy, &fresh) != PW_COPY_PLAIN_PREDICTED;
}

static void one_overwrite_stops_sharing(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    assert_true(would_share(&prediction));
    assert_true(pw_predictor_report(&prediction, 501, 1000, true));
    assert_false(would_share(&prediction));
}

static void half_written_is_no_overwrite(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    assert_false(pw_predictor_report(&prediction, 500, 1000, true));
    assert_false(pw_predictor_report(&prediction, 0, 1000, true));
    assert_true(would_share(&prediction));
}

// A site whose copies stayed shared for long is not given up for one that did not.
static void a_good_history_forgives_one_late_overwrite(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    for (int i = 0; i < 50; i++) {
        pw_predictor_report(&prediction, 1, 1000, true);
    }
    pw_predictor_report(&prediction, 1000, 1000, true);
    assert_true(would_share(&prediction));
    for (int i = 0; i < 10; i++) {
        pw_predictor_report(&prediction, 1000, 1000, true);
    }
    assert_false(would_share(&prediction));
}

static void a_bad_history_is_bounded(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    for (int i = 0; i < 10000; i++) {
        pw_predictor_report(&prediction, 1000, 1000, i % 2);
        assert_true(prediction.score <= 16);
    }
    int good = 0;
    while (!would_share(&prediction)) {
        pw_predictor_report(&prediction, 0, 1000, true);
        assert_true(++good <= 16);
    }
    for (int i = 0; i < 10000; i++) {
        pw_predictor_report(&prediction, 0, 1000, true);
        assert_true(prediction.score >= -4);
    }
}

// --- lifetimes ---------------------------------------------------------------

#define LONG_ENOUGH 250 // ms

static void ends(struct pw_prediction *prediction, uint64_t born, uint64_t now) {
    pw_predictor_ended(prediction, &(struct pw_copy_end){.born = born, .now = now});
}

// Copies made one after another, the last at `now`, that all lived for so many ms.
static void have_lived(struct pw_prediction *prediction, unsigned copies, uint64_t ms) {
    for (unsigned i = 0; i < copies; i++) {
        pw_predictor_born(prediction, 5000 + i);
        ends(prediction, 5000 + i, 5000 + i + ms);
    }
}

static enum pw_copy_answer decide_at(struct pw_prediction *prediction,
                                     struct pw_copy_question question, uint64_t now) {
    question.now = now;
    return pw_copy_decide(&lazy, prediction, &question);
}

static void a_source_is_not_published_for_brief_copies(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    have_lived(&prediction, 3, 10);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PUBLISH); // few are no habit
    have_lived(&prediction, 1, 10);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PLAIN_BRIEF);
    struct pw_copy_question dirty = ASK(1600, 0, true, 1440);
    assert_int_equal(decide_at(&prediction, dirty, 9000), PW_COPY_PLAIN_BRIEF);
    assert_int_equal(pw_copy_decide(&always, &prediction, &fresh), PW_COPY_PUBLISH);
    assert_int_equal(pw_copy_decide(&patient, &prediction, &fresh), PW_COPY_PUBLISH);
}

static void a_source_is_published_for_copies_that_live_long(void **state) {
    (void)state;
    struct pw_prediction shorter = {0}, longer = {0};
    have_lived(&shorter, 10, LONG_ENOUGH - 1);
    have_lived(&longer, 10, LONG_ENOUGH);
    assert_int_equal(decide_at(&shorter, fresh, 9000), PW_COPY_PLAIN_BRIEF);
    assert_int_equal(decide_at(&longer, fresh, 9000), PW_COPY_PUBLISH);
}

// It is the mean that counts: pages times time is what sharing saves.
static void one_long_life_outweighs_many_brief_ones(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    have_lived(&prediction, 20, 10);
    have_lived(&prediction, 1, 20 * LONG_ENOUGH);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PLAIN_BRIEF);
    have_lived(&prediction, 1, 20 * LONG_ENOUGH);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PUBLISH);
}

// Versions that are kept are young when the next one is made, and yet not brief.
static void copies_that_live_on_are_not_brief(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(decide_at(&prediction, fresh, 5000 + i), PW_COPY_PUBLISH);
        pw_predictor_born(&prediction, 5000 + i);
    }
}

static void they_speak_for_others_by_their_age(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    have_lived(&prediction, 10, 0);
    pw_predictor_born(&prediction, 5000);
    assert_int_equal(decide_at(&prediction, fresh, 4999 + 10 * LONG_ENOUGH), PW_COPY_PLAIN_BRIEF);
    assert_int_equal(decide_at(&prediction, fresh, 5000 + 10 * LONG_ENOUGH), PW_COPY_PUBLISH);
    ends(&prediction, 5000, 5000 + 10 * LONG_ENOUGH);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PLAIN_BRIEF);
}

// How long a copy lived and what was written to it are told at once, and each may be unknown.
static void an_end_tells_both_the_life_and_the_writes(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    pw_predictor_born(&prediction, 5000);
    struct pw_copy_end end = {.born = 5000, .now = 6000, .written = 501, .pages = 1000};
    assert_true(pw_predictor_ended(&prediction, &end));
    assert_int_equal(prediction.score, 2);
    assert_int_equal(prediction.lifetimes.ended, 1);
    assert_int_equal(prediction.lifetimes.lived_sum, 1000);
    end = (struct pw_copy_end){.now = 7000, .written = 500, .pages = 1000};
    assert_false(pw_predictor_ended(&prediction, &end));
    assert_int_equal(prediction.score, 1);
    assert_int_equal(prediction.lifetimes.ended, 1);
    assert_false(pw_predictor_ended(&prediction, &(struct pw_copy_end){.now = 8000}));
    assert_int_equal(prediction.score, 1);
}

static void what_was_long_ago_is_forgotten(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    have_lived(&prediction, 1000, 4 * LONG_ENOUGH);
    have_lived(&prediction, 500, 10);
    assert_int_equal(decide_at(&prediction, fresh, 9000), PW_COPY_PLAIN_BRIEF);
}

static void a_published_source_is_copied_for_brief_copies_too(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    const struct pw_copy_question cold = ASK(4095, 0, true, 0), warm = ASK(4095, 4095, true, 0);
    assert_int_equal(decide_at(&prediction, warm, 9000), PW_COPY_SHARE);
    have_lived(&prediction, 10, 10);
    assert_int_equal(decide_at(&prediction, cold, 9000), PW_COPY_PLAIN_BRIEF);
    assert_int_equal(decide_at(&prediction, warm, 9000), PW_COPY_PLAIN_BRIEF);
    assert_int_equal(pw_copy_decide(&patient, &prediction, &warm), PW_COPY_SHARE);
}

static const struct pw_copy_question large = ASK(4096, 0, false, 0);

// A mapping is much less than a copy of 16 MB: as many of them as publishings make these worth it.
static void large_sources_are_published_for_many_brief_copies(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    const struct pw_copy_question clean = ASK(4096, 4096, true, 0);
    have_lived(&prediction, 10, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(decide_at(&prediction, clean, 9000), PW_COPY_SHARE);
        have_lived(&prediction, 1, 0);
        assert_int_equal(decide_at(&prediction, large, 9000), PW_COPY_PLAIN_BRIEF);
    }
    struct pw_prediction worthy = {0};
    for (int i = 0; i < 4; i++) { // one publishing, one mapping
        assert_int_equal(decide_at(&worthy, large, 9000), PW_COPY_PUBLISH);
        assert_int_equal(decide_at(&worthy, clean, 9000), PW_COPY_SHARE);
        have_lived(&worthy, 2, 0);
    }
}

static void large_sources_are_tried_again(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    have_lived(&prediction, 100, 10);
    int published = 0, last = -1;
    for (int i = 0; i < 32 * 100; i++) {
        assert_int_equal(decide_at(&prediction, fresh, 9000),
                         PW_COPY_PLAIN_BRIEF); // small ones not
        if (decide_at(&prediction, large, 9000) == PW_COPY_PUBLISH) {
            assert_true(last < 0 || i - last == 32);
            last = i;
            published++;
        }
    }
    assert_int_equal(published, 100);
}

// A copy that is still alive says nothing yet when it is clean.
static void clean_so_far_is_no_hit(void **state) {
    (void)state;
    struct pw_prediction prediction = {.score = 3};
    pw_predictor_report(&prediction, 0, 1000, false);
    assert_int_equal(prediction.score, 3);
}

static void every_32nd_copy_is_tried_again(void **state) {
    (void)state;
    struct pw_prediction prediction = {.score = 16};
    int shared = 0, last = -1;
    for (int i = 0; i < 32 * 100; i++) {
        if (pw_copy_decide(&lazy, &prediction, &fresh) != PW_COPY_PLAIN_PREDICTED) {
            assert_true(last < 0 || i - last == 32);
            last = i;
            shared++;
        }
    }
    assert_int_equal(shared, 100);
}

// Each look is a system call: few of those that are certain to be overwritten are worth one.
static void certain_copies_are_looked_at_now_and_then(void **state) {
    (void)state;
    struct pw_prediction prediction = {.known = true, .score = 16};
    int looks = 0;
    for (int i = 0; i < 64; i++) {
        bool plain = pw_copy_decide(&lazy, &prediction, &fresh) == PW_COPY_PLAIN_PREDICTED;
        looks += plain && pw_predictor_is_curious(&prediction);
    }
    assert_int_equal(looks, 6); // every eighth one, and two of these were shared
    prediction.score = 15;
    assert_true(pw_predictor_is_curious(&prediction));
}

static void a_kind_that_is_kept_from_now_on_is_shared_within_32(void **state) {
    (void)state;
    struct pw_prediction prediction = {.known = true, .score = 16};
    int plain = 0;
    while (pw_copy_decide(&lazy, &prediction, &fresh) == PW_COPY_PLAIN_PREDICTED) {
        plain++;
        if (pw_predictor_is_curious(&prediction)) {
            pw_predictor_report(&prediction, 0, 1000, true);
        }
    }
    assert_true(plain < 32);
    assert_int_equal(prediction.score, 0);
}

// A package's own code copies in order to overwrite, until it is seen not to.
static void extensions_must_earn_sharing(void **state) {
    (void)state;
    struct pw_prediction prediction = {0};
    struct pw_copy_question question = fresh;
    question.by_extension = true;
    assert_int_equal(pw_copy_decide(&lazy, &prediction, &question), PW_COPY_PLAIN_PREDICTED);
    pw_predictor_report(&prediction, 0, 1000, true);
    assert_int_equal(pw_copy_decide(&lazy, &prediction, &question), PW_COPY_PUBLISH);
}

// And a score of 0 that was earned stays one.
static void a_workers_first_copy_is_plain(void **state) {
    (void)state;
    struct pw_prediction prediction = {0}, learnt = {.known = true};
    struct pw_copy_question question = fresh;
    question.in_worker = true;
    assert_int_equal(pw_copy_decide(&lazy, &learnt, &question), PW_COPY_PUBLISH);
    assert_int_equal(pw_copy_decide(&lazy, &prediction, &question), PW_COPY_PLAIN_PREDICTED);
    pw_predictor_report(&prediction, 0, 1000, true);
    assert_int_equal(pw_copy_decide(&lazy, &prediction, &question), PW_COPY_PUBLISH);
    assert_int_equal(pw_copy_decide(&always, &(struct pw_prediction){0}, &question),
                     PW_COPY_PUBLISH);
}

static void always_ignores_the_predictor(void **state) {
    (void)state;
    struct pw_prediction prediction = {.score = 16};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pw_copy_decide(&always, &prediction, &fresh), PW_COPY_PUBLISH);
    }
}

static void sizes_and_sites_have_entries_of_their_own(void **state) {
    (void)state;
    struct pw_predictor *predictor = calloc(1, sizeof *predictor);
    assert_non_null(predictor);
    assert_ptr_equal(pw_predictor_entry(predictor, 100, 7), pw_predictor_entry(predictor, 100, 7));
    // Few of them may collide: call sites differ in their low bits, sizes too.
    int collisions = 0;
    for (uint32_t i = 0; i < 200; i++) {
        struct pw_prediction *entry = pw_predictor_entry(predictor, 33 + i % 20, 0x400000 + i / 20);
        collisions += entry->skipped++ > 0;
        assert_true(entry >= predictor->table && entry < predictor->table + PW_PREDICTIONS);
    }
    assert_true(collisions < 20);
    free(predictor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_follow_the_table),
        cmocka_unit_test(one_overwrite_stops_sharing),
        cmocka_unit_test(half_written_is_no_overwrite),
        cmocka_unit_test(a_good_history_forgives_one_late_overwrite),
        cmocka_unit_test(a_bad_history_is_bounded),
        cmocka_unit_test(a_source_is_not_published_for_brief_copies),
        cmocka_unit_test(a_source_is_published_for_copies_that_live_long),
        cmocka_unit_test(one_long_life_outweighs_many_brief_ones),
        cmocka_unit_test(copies_that_live_on_are_not_brief),
        cmocka_unit_test(they_speak_for_others_by_their_age),
        cmocka_unit_test(an_end_tells_both_the_life_and_the_writes),
        cmocka_unit_test(what_was_long_ago_is_forgotten),
        cmocka_unit_test(a_published_source_is_copied_for_brief_copies_too),
        cmocka_unit_test(large_sources_are_published_for_many_brief_copies),
        cmocka_unit_test(large_sources_are_tried_again),
        cmocka_unit_test(clean_so_far_is_no_hit),
        cmocka_unit_test(every_32nd_copy_is_tried_again),
        cmocka_unit_test(certain_copies_are_looked_at_now_and_then),
        cmocka_unit_test(a_kind_that_is_kept_from_now_on_is_shared_within_32),
        cmocka_unit_test(extensions_must_earn_sharing),
        cmocka_unit_test(a_workers_first_copy_is_plain),
        cmocka_unit_test(always_ignores_the_predictor),
        cmocka_unit_test(sizes_and_sites_have_entries_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
