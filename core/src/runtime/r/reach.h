// SPDX-License-Identifier: MIT
//
// Which nodes may be frozen: what packages brought, and nothing whose death somebody waits for.
#ifndef PW_RUNTIME_R_REACH_H
#define PW_RUNTIME_R_REACH_H

#include "runtime/r/limits.h"
#include "runtime/r/node_set.h"

// What is taken to live as long as it is frozen, or is looked after (frozen.c): symbols, base, the
// registry of namespaces and the namespaces in it.
struct pw_r_reach {
    uintptr_t *table; // a stack, and from the other end nodes that are not decided
    size_t room, depth, undecided;
    struct pw_r_amount amount; // reached
    struct pw_r_set reached;
    struct pw_r_set leaves;             // from these a finalizer's key is reachable
    struct pw_r_set safe;               // from these not, or they are anchors
    struct pw_r_set once, twice, cells; // of the symbol table
    bool failed;                        // no memory, or an unknown type
};

// Walks from the anchors. Changes no node. NULL, or why nothing may be frozen.
const char *pw_r_reach_find(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                            const struct pw_r_api *api);
void pw_r_reach_free(struct pw_r_reach *reach);

// May it be frozen?
bool pw_r_reach_may_freeze(const struct pw_r_reach *reach, const struct pw_r_node *node);

// Call `visit` with each namespace that is registered, until it returns false.
typedef bool pw_r_visit_namespace(void *context, struct pw_r_node *environment);
bool pw_r_each_namespace(const struct pw_r_api *api, pw_r_visit_namespace *visit, void *context);

#endif
