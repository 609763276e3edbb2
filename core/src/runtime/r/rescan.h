// SPDX-License-Identifier: MIT
//
// The barrier: before each collection, every frozen node that may have been written since the last
// look is looked at again, and its children that are not frozen become roots.
#ifndef PW_RUNTIME_R_RESCAN_H
#define PW_RUNTIME_R_RESCAN_H

#include "os/os.h"
#include "runtime/r/frozen_pages.h"
#include "runtime/r/node_set.h"
#include "runtime/r/page_sum.h"
#include "runtime/r/roots.h"

struct pw_r_span { // of pages with frozen nodes, whole pages of memory
    uintptr_t start, end;
};

struct pw_r_rescan {
    struct pw_r_frozen_pages *pages;
    const struct pw_r_set *frozen;
    struct pw_r_roots *roots;
    struct pw_r_node *nothing, *global; // which need no root
    struct pw_r_sum_key key;
    struct pw_os_written written;
    struct pw_r_span *spans;
    size_t span_count, span_room;
    struct pw_r_span pending; // not protected yet
    uintptr_t listed;         // where the last range that was written ends
    uint32_t *marker;         // reads zero in a child, which watches nothing; NULL: not known
    bool watches;            // the kernel tells of written pages; otherwise all nodes are looked at
    bool begins;             // nothing was looked at yet
    bool may_call;           // in this look: make system calls
    struct pw_r_set symbols; // roots until all is thawed, on no page
    struct pw_r_frozen_page always;     // that they are kept for
    size_t first_written, past_written; // those that the last one looked at lie between
    uint32_t looks;                     // at written pages
    uint32_t written_now, hot_now; // pages that the last one looked at; those of them that were
                                   // written before each of the last looks
};

// Does the kernel tell of written pages?
bool pw_r_rescan_can_watch(void);

// Prepare to be told of written pages, if `watch` and the kernel does. All count as written.
void pw_r_rescan_start(struct pw_r_rescan *rescan, bool watch);
void pw_r_rescan_stop(struct pw_r_rescan *rescan, bool may_call);

// False: the roots are full. With `may_call` false no system call is made.
bool pw_r_rescan_look(struct pw_r_rescan *rescan, bool may_call);

// Was it written before each of the last looks, the very last among them?
bool pw_r_rescan_is_hot(const struct pw_r_rescan *rescan, const struct pw_r_frozen_page *page);

// Nodes are frozen no more that others may hold: look at all. False: the roots are full.
bool pw_r_rescan_look_anew(struct pw_r_rescan *rescan);

// A collection has ended, and the program has not run since the look at its start.
void pw_r_rescan_collected(struct pw_r_rescan *rescan, bool may_call);

#endif
