// SPDX-License-Identifier: MIT
#include "policy/options.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_THRESHOLD ((size_t)8 << 10) // two pages: the papers'
#define LARGEST_THRESHOLD  ((size_t)1 << 30)
#define DEFAULT_THRESHOLD  ((size_t)128 << 10)
#define LONGEST_ITEM       320

struct word {
    const char *text;
    int value;
};

static const struct word policies[] = {
    {"plain", PW_POLICY_PLAIN}, {"direct", PW_POLICY_DIRECT},
    {"ksm", PW_POLICY_KSM},     {"ksm-aggressive", PW_POLICY_KSM_AGGRESSIVE},
    {"share", PW_POLICY_SHARE}, {"huge", PW_POLICY_HUGE},
    {"auto", PW_POLICY_AUTO},   {NULL, 0},
};
static const struct word share_modes[] = {
    {"off", PW_SHARE_OFF}, {"lazy", PW_SHARE_LAZY}, {"always", PW_SHARE_ALWAYS}, {NULL, 0}};
static const struct word zero_modes[] = {
    {"off", PW_ZERO_OFF}, {"backoff", PW_ZERO_BACKOFF}, {"always", PW_ZERO_ALWAYS}, {NULL, 0}};
static const struct word collect_modes[] = {{"auto", PW_COLLECT_AUTO},
                                            {"getrusage", PW_COLLECT_GETRUSAGE},
                                            {"burst", PW_COLLECT_BURST},
                                            {NULL, 0}};
static const struct word module_sets[] = {{"r", PW_MODULES_R}, {"all", PW_MODULES_ALL}, {NULL, 0}};
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
        .slack_percent = 2,
        .decay_seconds = 10,
    };
    switch (policy) {
    case PW_POLICY_SHARE: // the papers' rules
        options->threshold = SMALLEST_THRESHOLD;
        options->share = PW_SHARE_ALWAYS;
        options->zero = PW_ZERO_ALWAYS;
        break;
    case PW_POLICY_HUGE:
        options->huge = options->pool = true;
        break;
    case PW_POLICY_AUTO:
        options->share = PW_SHARE_LAZY;
        options->zero = PW_ZERO_BACKOFF;
        options->huge = options->pool = true;
        break;
    default: // plain; direct and ksm leave blocks to the C library's own mapping of large ones
        options->threshold = SMALLEST_THRESHOLD;
        break;
    }
}

static bool set_word(const struct word *words, const char *value, int *target) {
    return find_word(words, value, target);
}

// False: name or value not understood; nothing is changed then.
static bool set_item(struct pw_options *options, const char *name, const char *value) {
    int word = 0;
    size_t number = 0;
    if (!strcmp(name, "policy")) {
        return find_word(policies, value, &word); // read before
    }
    if (!strcmp(name, "threshold")) {
        return read_number(value, SMALLEST_THRESHOLD, LARGEST_THRESHOLD, &number) &&
               (options->threshold = number, true);
    }
    if (!strcmp(name, "slack")) {
        return read_number(value, 0, 100, &number) &&
               (options->slack_percent = (unsigned)number, true);
    }
    if (!strcmp(name, "decay")) {
        return read_number(value, 0, 3600, &number) &&
               (options->decay_seconds = (unsigned)number, true);
    }
    if (!strcmp(name, "share")) {
        return set_word(share_modes, value, &word) && (options->share = word, true);
    }
    if (!strcmp(name, "zero")) {
        return set_word(zero_modes, value, &word) && (options->zero = word, true);
    }
    if (!strcmp(name, "collect")) {
        return set_word(collect_modes, value, &word) && (options->collect = word, true);
    }
    if (!strcmp(name, "modules")) {
        return set_word(module_sets, value, &word) && (options->modules = word, true);
    }
    if (!strcmp(name, "pool")) {
        return set_word(switches, value, &word) && (options->pool = word, true);
    }
    if (!strcmp(name, "huge")) {
        return set_word(switches, value, &word) && (options->huge = word, true);
    }
    if (!strcmp(name, "verbose")) {
        return set_word(switches, value, &word) && (options->verbose = word, true);
    }
    if (!strcmp(name, "statistics")) {
        bool fits = *value && strlen(value) < sizeof options->statistics;
        if (fits) {
            strcpy(options->statistics, value);
        }
        return fits;
    }
    return false;
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

static void visit_other(struct pw_options *options, const char *name, const char *value,
                        const char *item, pw_options_warn *warn) {
    if (!set_item(options, name, value)) {
        warn("PAGEWISE_OPTIONS: not understood, the default is used: ", item);
    }
}

void pw_options_read(struct pw_options *options, const char *text, pw_options_warn *warn) {
    set_defaults(options, PW_POLICY_AUTO);
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
