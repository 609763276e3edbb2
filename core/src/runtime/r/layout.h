// SPDX-License-Identifier: MIT
//
// Where R's collector keeps its nodes (R_GenHeap of memory.c, which has no name outside it), found
// at run time from a node that was made through R's API, and believed only after tests.
#ifndef PW_RUNTIME_R_LAYOUT_H
#define PW_RUNTIME_R_LAYOUT_H

#include "runtime/r/r_api.h"

struct pw_r_page { // of small nodes, which follow
    struct pw_r_page *next;
};

struct pw_r_heap_class {
    struct pw_r_node *old[PW_R_GENERATIONS], *fresh, *free;
    struct pw_r_node old_peg[PW_R_GENERATIONS], fresh_peg;
    struct pw_r_node *old_to_new[PW_R_GENERATIONS];
    struct pw_r_node old_to_new_peg[PW_R_GENERATIONS];
    int old_count[PW_R_GENERATIONS], node_count, page_count;
    struct pw_r_page *pages;
};

struct pw_r_layout {
    struct pw_r_heap_class *classes;       // PW_R_CLASSES of them
    struct pw_r_node **weak_references;    // the first; each has its key, and the next
    uint64_t *node_limit, *vector_limit;   // R_NSize and R_VSize: they trigger collections
    uint64_t *vector_most;                 // R_MaxVSize: beyond it R refuses
    uintptr_t code_start, code_end;        // of libR.so, or of the executable that R is
    unsigned per_page[PW_R_SMALL_CLASSES]; // nodes
    unsigned collections;                  // young ones, that finding it took
};

#define PW_R_NO_LIMIT UINT64_MAX // of R_MaxVSize

#define PW_R_WEAK_KEY  0
#define PW_R_WEAK_NEXT 3

// Data of a node's class, in units of 8 bytes; bytes of a whole one.
unsigned pw_r_class_units(unsigned class);
size_t pw_r_node_size(unsigned class);

// Looks for everything. Allocates and collects: to be called where R code may run. NULL: found;
// otherwise why not.
const char *pw_r_layout_find(struct pw_r_layout *layout, const struct pw_r_api *api);

// What may have changed since it was found. NULL: nothing that matters.
const char *pw_r_layout_check(struct pw_r_layout *layout, const struct pw_r_api *api);

// Has the program, or an option of R's, set a limit on nodes? To be called where R code may run.
bool pw_r_layout_limits_nodes(const struct pw_r_api *api);

// Has nothing been allocated since the last collection? Then whatever lives is marked.
bool pw_r_layout_is_collected(const struct pw_r_layout *layout);

// Nodes in pages and large vectors, free ones among them.
size_t pw_r_layout_most_nodes(const struct pw_r_layout *layout);

#endif
