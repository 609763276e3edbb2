// SPDX-License-Identifier: MIT
#include "policy/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_THRESHOLD ((size_t)8 << 10) // two pages: the papers'
#define LARGEST_THRESHOLD  ((size_t)1 << 30)
#define DEFAULT_THRESHOLD  ((size_t)128 << 10)
#define GENERAL_THRESHOLD  ((size_t)32 << 10) // smaller blocks come from segments
#define GENERAL_SLACK      15u // other allocators keep as much (experiments/general.md)
#define HUGE_DECAY         10u // seconds; large pages may be dear to get back
#define LONGEST_ITEM       320
#define LONGEST_FORM       160
#define LONGEST_PATH       sizeof((struct pw_options *)NULL)->statistics
#define SMALLEST_LIMIT     ((size_t)1 << 20)
// Seconds. Tuned on gbm, lda, glmnet, kknn, lssvm and Rails (docs/notes/experiments/warm-pages.md,
// "Decay", and general.md).
#define DEFAULT_DECAY 1u
// Milliseconds. Tuned on lda, ada and loops of brief copies (docs/notes/experiments/sharing.md).
#define DEFAULT_BRIEF 250u

struct word {
    const char *text;
    int value;
};

static const struct word policies[] = {
    {"plain", PW_POLICY_PLAIN},
    {"direct", PW_POLICY_DIRECT},
    {"ksm", PW_POLICY_KSM},
    {"ksm-aggressive", PW_POLICY_KSM_AGGRESSIVE},
    {"share", PW_POLICY_SHARE},
    {"huge", PW_POLICY_HUGE},
    {"auto", PW_POLICY_AUTO},
    {"general", PW_POLICY_GENERAL},
    {NULL, 0},
};
static const struct word share_modes[] = {
    {"off", PW_SHARE_OFF}, {"lazy", PW_SHARE_LAZY}, {"always", PW_SHARE_ALWAYS}, {NULL, 0}};
static const struct word zero_modes[] = {
    {"off", PW_ZERO_OFF}, {"backoff", PW_ZERO_BACKOFF}, {"always", PW_ZERO_ALWAYS}, {NULL, 0}};
static const struct word collect_modes[] = {
    {"auto", PW_COLLECT_AUTO}, {"burst", PW_COLLECT_BURST}, {NULL, 0}};
static const struct word relieve_modes[] = {
    {"off", PW_RELIEVE_OFF}, {"short", PW_RELIEVE_SHORT}, {NULL, 0}};
static const struct word freeze_modes[] = {
    {"off", PW_FREEZE_OFF}, {"auto", PW_FREEZE_AUTO}, {"check", PW_FREEZE_CHECK}, {NULL, 0}};
static const struct word module_sets[] = {{"known", PW_MODULES_KNOWN},
                                          {"r", PW_MODULES_KNOWN}, // its name before Python
                                          {"all", PW_MODULES_ALL},
                                          {NULL, 0}};
static const struct word huge_modes[] = {{"off", PW_HUGE_OFF},       {"on", PW_HUGE_ON},
                                         {"always", PW_HUGE_ALWAYS}, {"0", PW_HUGE_OFF},
                                         {"1", PW_HUGE_ON},          {NULL, 0}};
static const struct word page_sources[] = {{"transparent", PW_PAGES_TRANSPARENT},
                                           {"ordinary", PW_PAGES_ORDINARY},
                                           {"hugetlb", PW_PAGES_2M},
                                           {"hugetlb-1g", PW_PAGES_1G},
                                           {NULL, 0}};
static const struct word switches[] = {{"off", 0}, {"on", 1}, {"0", 0}, {"1", 1}, {NULL, 0}};

static bool find_word(const struct word *words, const char *text, int *value) {
    for (; words->text; words++) {
        if (!strcmp(words->text, text)) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

// A number with an optional K, M or G, in [lowest, highest].
static bool read_number(const char *text, size_t lowest, size_t highest, size_t *number) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *text < '0' || *text > '9') {
        return false;
    }
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift > 0;
    if (*end || value > (SIZE_MAX >> shift)) {
        return false;
    }
    size_t bytes = (size_t)value << shift;
    *number = bytes;
    return bytes >= lowest && bytes <= highest;
}

static void set_defaults(struct pw_options *options, enum pw_policy policy) {
    *options = (struct pw_options){
        .policy = policy,
        .threshold = DEFAULT_THRESHOLD,
        .slack_percent = 1,
        .mmapcopy = true,
        .decay_seconds = DEFAULT_DECAY,
        .brief_ms = DEFAULT_BRIEF,
        .keeper = true,
    };
    switch (policy) {
    case PW_POLICY_SHARE: // the papers' rules
        options->threshold = SMALLEST_THRESHOLD;
        options->share = PW_SHARE_ALWAYS;
        options->zero = PW_ZERO_ALWAYS;
        break;
    case PW_POLICY_HUGE:
        options->huge = PW_HUGE_ON;
        options->decay_seconds = HUGE_DECAY;
        options->pool = true;
        break;
    case PW_POLICY_AUTO:
        options->share = PW_SHARE_LAZY;
        options->zero = PW_ZERO_BACKOFF;
        options->relieve = PW_RELIEVE_SHORT;
        options->early = true;
        options->huge = PW_HUGE_ON;
        options->pool = true;
        break;
    case PW_POLICY_GENERAL:
        options->threshold = GENERAL_THRESHOLD;
        options->zero = PW_ZERO_BACKOFF; // only when pw_collection_ended is called
        options->pool = true;
        options->slack_percent = GENERAL_SLACK;
        break;
    default: // plain; direct and ksm leave blocks to the C library's own mapping of large ones
        options->threshold = SMALLEST_THRESHOLD;
        break;
    }
}

// How an option's value is read and where it is kept. Words are kept as int (all enums here are).
enum kind {
    KIND_POLICY,
    KIND_WORD,
    KIND_SWITCH,
    KIND_SIZE,
    KIND_UNSIGNED,
    KIND_FILTERS,
    KIND_PATH
};

struct option {
    const char *name;
    enum kind kind;
    size_t offset; // in struct pw_options
    const struct word *words;
    size_t lowest, highest;
};

#define AT(field) offsetof(struct pw_options, field)

static const struct option known_options[] = {
    {.name = "policy", .kind = KIND_POLICY, .words = policies},
    {"threshold", KIND_SIZE, AT(threshold), NULL, SMALLEST_THRESHOLD, LARGEST_THRESHOLD},
    {"slack", KIND_UNSIGNED, AT(slack_percent), NULL, 0, 100},
    {"decay", KIND_UNSIGNED, AT(decay_seconds), NULL, 0, 3600},
    {"brief", KIND_UNSIGNED, AT(brief_ms), NULL, 0, 3600000},
    {.name = "share", .kind = KIND_WORD, .offset = AT(share), .words = share_modes},
    {.name = "mmapcopy", .kind = KIND_SWITCH, .offset = AT(mmapcopy), .words = switches},
    {.name = "zero", .kind = KIND_WORD, .offset = AT(zero), .words = zero_modes},
    {.name = "collect", .kind = KIND_WORD, .offset = AT(collect), .words = collect_modes},
    {.name = "modules", .kind = KIND_WORD, .offset = AT(modules), .words = module_sets},
    {.name = "pool", .kind = KIND_SWITCH, .offset = AT(pool), .words = switches},
    {.name = "freeze", .kind = KIND_WORD, .offset = AT(freeze), .words = freeze_modes},
    {.name = "relieve", .kind = KIND_WORD, .offset = AT(relieve), .words = relieve_modes},
    {.name = "huge", .kind = KIND_WORD, .offset = AT(huge), .words = huge_modes},
    {.name = "early", .kind = KIND_SWITCH, .offset = AT(early), .words = switches},
    {"huge-min", KIND_SIZE, AT(huge_min), NULL, SMALLEST_THRESHOLD, SIZE_MAX},
    {"huge-max", KIND_SIZE, AT(huge_max), NULL, SMALLEST_THRESHOLD, SIZE_MAX},
    {.name = "pages", .kind = KIND_WORD, .offset = AT(pages), .words = page_sources},
    {.name = "lock", .kind = KIND_SWITCH, .offset = AT(lock), .words = switches},
    {.name = "verbose", .kind = KIND_SWITCH, .offset = AT(verbose), .words = switches},
    {"seccomp", KIND_FILTERS, AT(filters), NULL, 0, 1000},
    {.name = "statistics", .kind = KIND_PATH, .offset = AT(statistics)},
    {.name = "report", .kind = KIND_PATH, .offset = AT(report)},
    {"limit", KIND_SIZE, AT(limit), NULL, SMALLEST_LIMIT, SIZE_MAX},
    {.name = "keeper", .kind = KIND_SWITCH, .offset = AT(keeper), .words = switches},
};

static bool read_path(char *path, const char *value) {
    size_t length = strlen(value);
    if (length == 0 || length >= LONGEST_PATH) {
        return false;
    }
    memcpy(path, value, length + 1);
    return true;
}

// A word, or how many filters are known to be harmless.
static bool read_filters(const char *value, const struct option *option, unsigned *filters) {
    size_t number = 0;
    if (!strcmp(value, "plain")) {
        *filters = 0;
    } else if (!strcmp(value, "ignore")) {
        *filters = PW_FILTERS_ANY;
    } else if (read_number(value, option->lowest, option->highest, &number)) {
        *filters = (unsigned)number;
    } else {
        return false;
    }
    return true;
}

// False: the value was not understood; nothing is changed then.
static bool set_option(struct pw_options *options, const struct option *option, const char *value) {
    char *field = (char *)options + option->offset;
    int word = 0;
    size_t number = 0;
    switch (option->kind) {
    case KIND_POLICY: // applied before all others
        return find_word(option->words, value, &word);
    case KIND_WORD:
    case KIND_SWITCH:
        if (!find_word(option->words, value, &word)) {
            return false;
        }
        if (option->kind == KIND_WORD) {
            *(int *)field = word;
        } else {
            *(bool *)field = word != 0;
        }
        return true;
    case KIND_SIZE:
    case KIND_UNSIGNED:
        if (!read_number(value, option->lowest, option->highest, &number)) {
            return false;
        }
        if (option->kind == KIND_SIZE) {
            *(size_t *)field = number;
        } else {
            *(unsigned *)field = (unsigned)number;
        }
        return true;
    case KIND_FILTERS:
        return read_filters(value, option, (unsigned *)field);
    case KIND_PATH:
        return read_path(field, value);
    }
    return false;
}

// NULL: there is none of this name.
static const struct option *find_option(const char *name) {
    for (size_t i = 0; i < sizeof known_options / sizeof known_options[0]; i++) {
        if (!strcmp(known_options[i].name, name)) {
            return &known_options[i];
        }
    }
    return NULL;
}

static bool set_item(struct pw_options *options, const char *name, const char *value) {
    const struct option *option = find_option(name);
    bool understood = option && set_option(options, option, value);
    options->threshold_given |= understood && option->offset == AT(threshold);
    return understood;
}

typedef void visit_item(struct pw_options *options, const char *name, const char *value,
                        const char *item, pw_options_warn *warn);

static void visit_items(struct pw_options *options, const char *text, visit_item *visit,
                        pw_options_warn *warn) {
    while (text && *text) {
        char item[LONGEST_ITEM], name[LONGEST_ITEM];
        size_t length = strcspn(text, ",");
        size_t kept = length < sizeof item ? length : sizeof item - 1;
        memcpy(item, text, kept);
        item[kept] = 0;
        strcpy(name, item);
        char *equals = strchr(name, '=');
        if (equals) {
            *equals = 0;
        }
        if (length > kept) {
            *name = 0; // cut short: what is left may look valid and is not what was asked
        }
        if (length > 0) {
            visit(options, name, equals ? equals + 1 : "", item, warn);
        }
        text += length;
        text += *text == ',';
    }
}

static void visit_policy(struct pw_options *options, const char *name, const char *value,
                         const char *item, pw_options_warn *warn) {
    int policy = 0;
    (void)item;
    (void)warn;
    if (!strcmp(name, "policy") && find_word(policies, value, &policy)) {
        set_defaults(options, (enum pw_policy)policy);
    }
}

// --- what a wrong value could be -------------------------------------------------

struct form {
    char text[LONGEST_FORM];
    size_t length;
};

static void say(struct form *form, const char *before, const char *word) {
    size_t room = sizeof form->text - form->length;
    int length = snprintf(form->text + form->length, room, "%s%s", before, word);
    form->length += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

static void say_bytes(struct form *form, const char *before, size_t bytes) {
    static const char units[] = "KMG";
    char number[32];
    size_t unit = 0;
    for (bytes >>= 10; bytes >= 1024 && bytes % 1024 == 0 && unit < 2; unit++) {
        bytes >>= 10;
    }
    snprintf(number, sizeof number, "%zu%c", bytes, units[unit]);
    say(form, before, number);
}

static void say_range(struct form *form, const struct option *option) {
    char number[64];
    if (option->kind != KIND_SIZE) {
        snprintf(number, sizeof number, "%zu to %zu", option->lowest, option->highest);
        say(form, option->kind == KIND_FILTERS ? "plain, ignore or " : "", number);
        return;
    }
    say_bytes(form, "", option->lowest);
    if (option->highest == SIZE_MAX) {
        say(form, " or more", "");
    } else {
        say_bytes(form, " to ", option->highest);
    }
    say(form, ", in bytes or with K, M or G", "");
}

static void say_form(struct form *form, const struct option *option) {
    if (option->words) {
        say(form, "one of", "");
        for (const struct word *word = option->words; word->text; word++) {
            say(form, " ", word->text);
        }
    } else if (option->kind == KIND_PATH) {
        say(form, "a file or folder", "");
    } else {
        say_range(form, option);
    }
}

static void visit_other(struct pw_options *options, const char *name, const char *value,
                        const char *item, pw_options_warn *warn) {
    if (set_item(options, name, value)) {
        return;
    }
    const struct option *option = find_option(name);
    struct form form = {.length = 0};
    if (option) {
        say_form(&form, option);
    } else {
        say(&form, "there is no such option", "");
    }
    warn("PAGEWISE_OPTIONS: not understood, the default is used: ", item, form.text);
}

void pw_options_read(struct pw_options *options, const char *text, enum pw_policy policy,
                     pw_options_warn *warn) {
    set_defaults(options, policy);
    visit_items(options, text, visit_policy, warn);
    visit_items(options, text, visit_other, warn);
}

const char *pw_policy_name(enum pw_policy policy) {
    for (const struct word *word = policies; word->text; word++) {
        if (word->value == (int)policy) {
            return word->text;
        }
    }
    return "auto";
}
