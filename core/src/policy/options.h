// SPDX-License-Identifier: MIT
//
// PAGEWISE_OPTIONS (docs/reference/options.md): one string, checked; a bad value costs a warning
// and the default is used instead.
#ifndef PW_POLICY_OPTIONS_H
#define PW_POLICY_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum pw_policy {
    PW_POLICY_PLAIN,
    PW_POLICY_DIRECT,
    PW_POLICY_KSM,
    PW_POLICY_KSM_AGGRESSIVE,
    PW_POLICY_SHARE,
    PW_POLICY_HUGE,
    PW_POLICY_AUTO,
    PW_POLICY_GENERAL,
};

enum pw_share_mode { PW_SHARE_OFF, PW_SHARE_LAZY, PW_SHARE_ALWAYS };
enum pw_zero_mode { PW_ZERO_OFF, PW_ZERO_BACKOFF, PW_ZERO_ALWAYS };
enum pw_collect_mode { PW_COLLECT_AUTO, PW_COLLECT_BURST };
enum pw_relieve_mode { PW_RELIEVE_OFF, PW_RELIEVE_SHORT };
enum pw_huge_mode { PW_HUGE_OFF, PW_HUGE_ON, PW_HUGE_ALWAYS };
enum pw_page_source { PW_PAGES_TRANSPARENT, PW_PAGES_ORDINARY, PW_PAGES_2M, PW_PAGES_1G };
enum pw_freeze_mode { PW_FREEZE_OFF, PW_FREEZE_AUTO, PW_FREEZE_CHECK };
enum pw_modules { PW_MODULES_KNOWN, PW_MODULES_ALL };

#define PW_FILTERS_ANY UINT_MAX

struct pw_options {
    enum pw_policy policy;
    size_t threshold;          // bytes
    bool threshold_given;      // otherwise a runtime's own may take its place
    int share;                 // enum pw_share_mode
    int zero;                  // enum pw_zero_mode
    int collect;               // enum pw_collect_mode
    int modules;               // enum pw_modules
    int relieve;               // enum pw_relieve_mode
    int freeze;                // enum pw_freeze_mode
    int huge;                  // enum pw_huge_mode
    int pages;                 // enum pw_page_source, of large blocks
    size_t huge_min, huge_max; // bytes; 0: by mode
    size_t limit;              // bytes of blocks, of policy general; 0: none
    bool pool, lock, mmapcopy, early, verbose;
    bool keeper; // a thread of ours gives back what lies idle
    unsigned slack_percent, decay_seconds, brief_ms;
    unsigned filters;     // so many seccomp filters are borne; under more all is the C library's
    char statistics[256]; // folder; empty: none
    char report[256];     // file for what the heap holds at the end, or stderr; empty: none
};

// Called for each value that was not understood, with the offending `name=value` and what can be in
// its place.
typedef void pw_options_warn(const char *problem, const char *item, const char *possible);

// The options of `text` (NULL: none given), defaults filled in by policy (`policy` where the text
// names none). Items for the policy are read first, so that their order does not matter.
void pw_options_read(struct pw_options *options, const char *text, enum pw_policy policy,
                     pw_options_warn *warn);

const char *pw_policy_name(enum pw_policy policy);

#endif
