// SPDX-License-Identifier: MIT
//
// PAGEWISE_OPTIONS: every documented value, and hostile strings.
#include "os/os.h"
#include "policy/options.h"
#include "support.h"

static int warnings;
static char last_item[1024], last_possible[1024];

static void collect_warning(const char *problem, const char *item, const char *possible) {
    assert_non_null(strstr(problem, "PAGEWISE_OPTIONS"));
    warnings++;
    snprintf(last_item, sizeof last_item, "%s", item);
    snprintf(last_possible, sizeof last_possible, "%s", possible);
}

static struct pw_options read_options(const char *text) {
    struct pw_options options;
    memset(&options, 0xaa, sizeof options);
    warnings = 0;
    pw_options_read(&options, text, PW_POLICY_AUTO, collect_warning);
    return options;
}

static bool same(const struct pw_options *one, const struct pw_options *other) {
    return one->policy == other->policy && one->threshold == other->threshold &&
           one->share == other->share && one->zero == other->zero &&
           one->collect == other->collect && one->modules == other->modules &&
           one->pool == other->pool && one->huge == other->huge && one->verbose == other->verbose &&
           one->mmapcopy == other->mmapcopy && one->slack_percent == other->slack_percent &&
           one->decay_seconds == other->decay_seconds && one->brief_ms == other->brief_ms &&
           one->filters == other->filters && !strcmp(one->statistics, other->statistics);
}

static void defaults_are_the_documented_ones(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pw_options options = read_options(i ? "" : NULL);
        assert_int_equal(warnings, 0);
        assert_int_equal(options.policy, PW_POLICY_AUTO);
        assert_int_equal(options.threshold, 128 << 10);
        assert_int_equal(options.share, PW_SHARE_LAZY);
        assert_int_equal(options.zero, PW_ZERO_BACKOFF);
        assert_int_equal(options.collect, PW_COLLECT_AUTO);
        assert_int_equal(options.modules, PW_MODULES_KNOWN);
        assert_true(options.pool);
        assert_true(options.early);
        assert_true(options.huge);
        assert_true(options.mmapcopy);
        assert_false(options.verbose);
        assert_int_equal(options.slack_percent, 1);
        assert_int_equal(options.decay_seconds, 1);
        assert_int_equal(options.brief_ms, 250);
        assert_int_equal(options.filters, 0);
        assert_string_equal(options.statistics, "");
    }
}

static void policies_set_what_they_mean(void **state) {
    (void)state;
    struct pw_options share = read_options("policy=share");
    assert_int_equal(share.threshold, 8 << 10);
    assert_int_equal(share.share, PW_SHARE_ALWAYS);
    assert_int_equal(share.zero, PW_ZERO_ALWAYS);
    assert_false(share.pool);
    assert_false(share.early);
    struct pw_options huge = read_options("policy=huge");
    assert_int_equal(huge.share, PW_SHARE_OFF);
    assert_true(huge.huge);
    assert_int_equal(huge.decay_seconds, 10);
    struct pw_options general = read_options("policy=general");
    assert_int_equal(general.threshold, 32 << 10);
    assert_int_equal(general.slack_percent, 15);
    assert_int_equal(general.decay_seconds, 1);
    assert_int_equal(read_options("policy=huge,decay=7").decay_seconds, 7);
    static const char *const names[] = {"plain", "direct", "ksm", "ksm-aggressive",
                                        "share", "huge",   "auto"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[64];
        snprintf(text, sizeof text, "policy=%s", names[i]);
        assert_string_equal(pw_policy_name(read_options(text).policy), names[i]);
        assert_int_equal(warnings, 0);
    }
}

static void every_documented_value_is_taken(void **state) {
    (void)state;
    static const char *const good[] = {
        "threshold=8K",     "threshold=8192",    "threshold=1M",   "threshold=1G",
        "share=off",        "share=lazy",        "share=always",   "zero=off",
        "zero=backoff",     "zero=always",       "collect=auto",   "collect=burst",
        "pool=on",          "pool=off",          "slack=0",        "slack=100",
        "decay=0",          "decay=3600",        "huge=on",        "huge=off",
        "modules=r",        "modules=known",     "modules=all",    "statistics=/x",
        "verbose=0",        "verbose=1",         "huge=always",    "huge-min=1M",
        "huge-max=4G",      "pages=transparent", "pages=ordinary", "pages=hugetlb",
        "pages=hugetlb-1g", "lock=on",           "lock=off",       "mmapcopy=on",
        "mmapcopy=off",     "early=on",          "early=off",      "freeze=off",
        "freeze=check",     "freeze=auto"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        read_options(good[i]);
        if (warnings) {
            fail_msg("not taken: %s", good[i]);
        }
    }
    assert_int_equal(read_options("threshold=64K").threshold, 64 << 10);
    assert_int_equal(read_options("threshold=3M").threshold, 3 << 20);
    assert_int_equal(read_options("modules=all").modules, PW_MODULES_ALL);
    assert_int_equal(read_options("decay=7").decay_seconds, 7);
    assert_int_equal(read_options("seccomp=plain").filters, 0);
    assert_int_equal(read_options("seccomp=2").filters, 2);
    assert_int_equal(read_options("seccomp=ignore").filters, PW_FILTERS_ANY);
    assert_int_equal(read_options("brief=0").brief_ms, 0);
    assert_int_equal(read_options("brief=3600000").brief_ms, 3600000);
    assert_string_equal(read_options("statistics=/tmp/a=b").statistics, "/tmp/a=b");
}

static void order_does_not_matter_and_the_last_wins(void **state) {
    (void)state;
    struct pw_options first = read_options("policy=share,threshold=64K,zero=off");
    struct pw_options second = read_options("zero=off,threshold=64K,policy=share");
    assert_true(same(&first, &second));
    assert_int_equal(first.threshold, 64 << 10);
    assert_int_equal(read_options("slack=1,slack=9").slack_percent, 9);
    assert_int_equal(read_options("slack=9,slack=1000").slack_percent, 9);
    assert_int_equal(warnings, 1);
    assert_int_equal(read_options("policy=nonsense,policy=share").policy, PW_POLICY_SHARE);
    assert_int_equal(warnings, 1);
}

// Each costs exactly one warning and changes nothing.
static void bad_items_warn_and_change_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {"policy=",
                                      "policy=AUTO",
                                      "policy=auto ",
                                      " policy=auto",
                                      "policy",
                                      "=",
                                      "=auto",
                                      "==",
                                      "nonsense",
                                      "nonsense=1",
                                      "Policy=share",
                                      "threshold=",
                                      "threshold=0",
                                      "threshold=8191",
                                      "threshold=-8K",
                                      "threshold=+8K",
                                      "threshold= 8K",
                                      "threshold=8k",
                                      "threshold=8KB",
                                      "threshold=8 K",
                                      "threshold=0x8000",
                                      "threshold=1e6",
                                      "threshold=2G",
                                      "threshold=99999999999999999999999999",
                                      "threshold=18446744073709551615",
                                      "threshold=18446744073709551615K",
                                      "threshold=17179869184G",
                                      "threshold=18014398509481992K",
                                      "slack=101",
                                      "slack=-1",
                                      "slack=4294967296",
                                      "decay=3601",
                                      "decay=1.5",
                                      "brief=3600001",
                                      "seccomp=",
                                      "seccomp=off",
                                      "seccomp=1001",
                                      "seccomp=-1",
                                      "brief=-1",
                                      "share=on",
                                      "zero=yes",
                                      "collect=gc",
                                      "modules=R",
                                      "pool=maybe",
                                      "huge=ever",
                                      "huge-min=1",
                                      "pages=2M",
                                      "lock=yes",
                                      "verbose=2",
                                      "statistics="};
    struct pw_options defaults = read_options(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pw_options options = read_options(bad[i]);
        if (warnings != 1 || !same(&options, &defaults)) {
            fail_msg("'%s': %d warnings, threshold %zu", bad[i], warnings, options.threshold);
        }
        assert_string_equal(last_item, bad[i]);
    }
}

static void a_warning_says_what_is_possible(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"policy=fast", "one of plain direct ksm ksm-aggressive share huge auto general"},
        {"zero=banana", "one of off backoff always"},
        {"verbose=yes", "one of off on 0 1"},
        {"threshold=4K", "8K to 1G, in bytes or with K, M or G"},
        {"huge-min=1", "8K or more, in bytes or with K, M or G"},
        {"limit=1", "1M or more, in bytes or with K, M or G"},
        {"decay=1h", "0 to 3600"},
        {"seccomp=some", "plain, ignore or 0 to 1000"},
        {"report=", "a file or folder"},
        {"treshold=8K", "there is no such option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_options(cases[i][0]);
        assert_int_equal(warnings, 1);
        assert_string_equal(last_possible, cases[i][1]);
    }
}

static void empty_items_are_nothing(void **state) {
    (void)state;
    struct pw_options defaults = read_options(NULL);
    static const char *const empty[] = {",", ",,,,,,,,", ""};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct pw_options options = read_options(empty[i]);
        assert_true(same(&options, &defaults));
        assert_int_equal(warnings, 0);
    }
    assert_int_equal(read_options(",,slack=5,,").slack_percent, 5);
}

// Longer than any item may be: never cut to something that looks valid.
static void overlong_items_are_refused(void **state) {
    (void)state;
    struct pw_options defaults = read_options(NULL);
    static char text[1 << 20];
    for (size_t length = 200; length < sizeof text; length = length * 5 / 4 + 1) {
        memset(text, '0', length);
        memcpy(text, "threshold=", 10);
        memcpy(text + length - 7, "131072M", 7); // 128 GB; cut anywhere, something smaller
        text[length] = 0;
        struct pw_options options = read_options(text);
        assert_int_equal(warnings, 1);
        assert_true(same(&options, &defaults));
    }
    for (size_t zeros = 290; zeros < 330; zeros++) { // what is cut off is the unit alone
        size_t length = (size_t)snprintf(text, sizeof text, "threshold=%0*d", (int)zeros, 131072);
        memcpy(text + length, "G", 2);
        struct pw_options options = read_options(text);
        assert_int_equal(warnings, 1);
        assert_true(same(&options, &defaults));
    }
    memset(text, 'x', 4096);
    memcpy(text, "statistics=/", 12);
    strcpy(text + 4096, ",slack=3");
    struct pw_options options = read_options(text);
    assert_int_equal(warnings, 1);
    assert_int_equal(options.slack_percent, 3);
    assert_string_equal(options.statistics, "");
    memset(text, ',', sizeof text - 1);
    text[sizeof text - 1] = 0;
    read_options(text);
    assert_int_equal(warnings, 0);
}

static void longest_statistics_folder_fits(void **state) {
    (void)state;
    char text[300] = "statistics=";
    memset(text + 11, 'y', 255);
    assert_int_equal(strlen(read_options(text).statistics), 255);
    assert_int_equal(warnings, 0);
    text[11 + 255] = 'y';
    assert_int_equal(strlen(read_options(text).statistics), 0);
    assert_int_equal(warnings, 1);
}

// Random bytes: no crash, and nothing out of range comes out.
static void noise_stays_in_range(void **state) {
    (void)state;
    static const char alphabet[] = "policy=threshold=share,zero=,=,,8K1GM0always\xff\x01\n";
    struct random random = random_from(7);
    for (int round = 0; round < 20000; round++) {
        char text[600];
        size_t length = random_below(&random, sizeof text - 1);
        for (size_t i = 0; i < length; i++) {
            text[i] = alphabet[random_below(&random, sizeof alphabet - 1)];
        }
        text[length] = 0;
        struct pw_options options = read_options(text);
        assert_true(options.threshold >= 8 << 10 && options.threshold <= 1 << 30);
        assert_true(options.slack_percent <= 100 && options.decay_seconds <= 3600);
        assert_true(memchr(options.statistics, 0, sizeof options.statistics) != NULL);
    }
}

// What the program's user sees is one line, whatever the item holds.
static void a_warning_is_one_line(void **state) {
    (void)state;
    static const char *const details[] = {"threshold=1", "a\nb\nc", "a\r\033[2Jb", "\n\n\n", NULL};
    char long_detail[4000];
    memset(long_detail, 'z', sizeof long_detail - 1);
    long_detail[sizeof long_detail - 1] = 0;
    for (size_t i = 0; i <= sizeof details / sizeof *details; i++) {
        int ends[2], saved = dup(2);
        char line[8192];
        assert_int_equal(pipe(ends), 0);
        dup2(ends[1], 2);
        pw_os_warn("problem: ", i < 5 ? details[i] : long_detail);
        dup2(saved, 2);
        close(saved);
        close(ends[1]);
        ssize_t length = read(ends[0], line, sizeof line);
        close(ends[0]);
        assert_true(length > 0);
        assert_memory_equal(line, "pagewise: problem: ", 19);
        assert_ptr_equal(memchr(line, '\n', (size_t)length), line + length - 1);
        for (ssize_t at = 0; at < length - 1; at++) {
            assert_true((unsigned char)line[at] >= ' ');
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(policies_set_what_they_mean),
        cmocka_unit_test(every_documented_value_is_taken),
        cmocka_unit_test(order_does_not_matter_and_the_last_wins),
        cmocka_unit_test(bad_items_warn_and_change_nothing),
        cmocka_unit_test(a_warning_says_what_is_possible),
        cmocka_unit_test(empty_items_are_nothing),
        cmocka_unit_test(overlong_items_are_refused),
        cmocka_unit_test(longest_statistics_folder_fits),
        cmocka_unit_test(noise_stays_in_range),
        cmocka_unit_test(a_warning_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
