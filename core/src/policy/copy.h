// SPDX-License-Identifier: MIT
//
// How to answer a copy of whole pages: share or copy. The decision is made here and nowhere else;
// mechanisms report what became of it.
//
// Two ideas carry it. Lazy: a small copy into warm pages is cheaper than sharing. Predicted: what
// sharing saves is pages times time, so a copy that is about to be overwritten must not be shared,
// and one that is about to be freed need not be. Earlier copies of the same size from the same
// caller tell.
#ifndef PW_POLICY_COPY_H
#define PW_POLICY_COPY_H

#include "policy/options.h"

#include <stdbool.h>
#include <stdint.h>

enum pw_copy_answer {
    PW_COPY_SHARE,           // map the destination onto the source's snapshot, or call mmapcopy(2)
    PW_COPY_PUBLISH,         // publish the source first, then share
    PW_COPY_PLAIN_WARM,      // copy: warm pages are there to be used
    PW_COPY_PLAIN_PREDICTED, // copy: the predictor expects an overwrite
    PW_COPY_PLAIN_BRIEF,     // copy: the predictor expects an early end
    PW_COPY_PLAIN_DIRTY,     // copy: most of the snapshot has been replaced
};

struct pw_copy_question {
    uint32_t pages;             // to be shared
    uint32_t destination_pages; // of the whole destination block
    uint32_t destination_warm;  // of these, warm when it was allocated
    bool published;             // all of these pages can be shared as they are: the source shares
                                // them already, or mmapcopy(2) makes the copy
    uint64_t written;           // of these, how many the source has replaced since
    uint64_t now;               // on the clock of lifetimes, ms
    uint64_t site;              // the caller
    bool by_extension;          // who is the library of a package, not the runtime
    bool in_worker;             // of a process that does single tasks for another one
};

// How long copies of one kind live, shared or not. Times are in ms.
struct pw_lifetimes {
    uint32_t alive, ended; // copies
    uint64_t born_sum;     // when the living ones were made, added up
    uint64_t lived_sum;    // of those that ended
};

// What the predictor remembers of one (size, site). The watched copy is named by its extent.
struct pw_prediction {
    int8_t score;                       // above 0: expect an overwrite
    bool known;                         // asked before: a score of 0 was earned
    uint8_t skipped;                    // copies not shared for that reason since the last try
    uint8_t brief;                      // large ones not published for, because they live briefly
    uint32_t watched, generation;       // extent number of the watched copy, 0: none
    uint32_t source, source_generation; // of a plain copy; source 0: it is a shared one
    uint32_t to, from, pages;           // of a plain copy: which pages of which
    struct pw_lifetimes lifetimes;
};

#define PW_PREDICTIONS 4096u

struct pw_predictor {
    struct pw_prediction table[PW_PREDICTIONS];
};

struct pw_prediction *pw_predictor_entry(struct pw_predictor *predictor, uint32_t pages,
                                         uint64_t site);

// What was seen of a copy with so many pages written, that ended (`ended`) or whose next one of its
// kind arrived. Returns true when it had been mostly overwritten.
bool pw_predictor_report(struct pw_prediction *prediction, uint64_t written, uint64_t pages,
                         bool ended);

// Is what becomes of this plain copy worth looking at? Not each one of a kind that is certain to be
// overwritten: a look is a system call that compares sixteen pages.
bool pw_predictor_is_curious(const struct pw_prediction *prediction);

// A copy is made, shared or not.
void pw_predictor_born(struct pw_prediction *prediction, uint64_t now);

// It ends: its block is freed, or overwritten by another copy.
struct pw_copy_end {
    uint64_t born, now;      // `born`: what was given as `now` when it was made; 0: told before
    uint64_t written, pages; // of the pages that it shared; `pages` 0: not known, or told before
};

// Returns true when it had been mostly overwritten.
bool pw_predictor_ended(struct pw_prediction *prediction, const struct pw_copy_end *end);

enum pw_copy_answer pw_copy_decide(const struct pw_options *options,
                                   struct pw_prediction *prediction,
                                   const struct pw_copy_question *question);

#endif
