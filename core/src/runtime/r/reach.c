// SPDX-License-Identifier: MIT
//
// Two walks. The first finds everything that anchors keep alive; the global environment is not gone
// into, nor the few variables of base in which R keeps the user's own values. The second marks
// ("leaves") every node from which a finalizer's key, a weak reference or an external pointer can
// be reached without passing an anchor. Were such a node frozen and then dropped by the program, it
// would go on holding what a finalizer waits for. Through an anchor all is exact: an anchor lives,
// and what it holds is looked at before each collection.
#include "runtime/r/reach.h"

#include "os/os.h"

#include <string.h>

#define MOST_PASSES 64

static size_t order_size(const struct pw_r_reach *reach) {
    return pw_pages_for(reach->room * sizeof *reach->order) * PW_PAGE;
}

// --- anchors ---------------------------------------------------------------------------

static bool visit_chain(const struct pw_r_api *api, struct pw_r_node *cell,
                        pw_r_visit_namespace *visit, void *context) {
    for (; cell != api->nil; cell = cell->fields[1]) {
        struct pw_r_node *value = cell->fields[0];
        if (!pw_r_holds_number(cell) && value && pw_r_type(value) == PW_R_ENVIRONMENT &&
            !visit(context, value)) {
            return false;
        }
    }
    return true;
}

bool pw_r_each_namespace(const struct pw_r_api *api, pw_r_visit_namespace *visit, void *context) {
    struct pw_r_node *table = api->namespaces->fields[2];
    if (pw_r_type(table) != PW_R_LIST) {
        return visit_chain(api, api->namespaces->fields[0], visit, context);
    }
    struct pw_r_vector *chains = pw_r_as_vector(table);
    for (int64_t i = 0; i < chains->length; i++) {
        if (!visit_chain(api, chains->elements[i], visit, context)) {
            return false;
        }
    }
    return true;
}

static bool is_anchor(const struct pw_r_reach *reach, const struct pw_r_node *node) {
    return pw_r_type(node) == PW_R_SYMBOL || pw_r_set_has(&reach->anchors, node);
}

// --- the first walk ----------------------------------------------------------------------

static void reach_node(void *context, struct pw_r_node *node) {
    struct pw_r_reach *reach = context;
    if (pw_r_set_has(&reach->reached, node)) {
        return;
    }
    if (reach->count == reach->room || !pw_r_set_add(&reach->reached, node)) {
        reach->failed = true;
        return;
    }
    reach->order[reach->count++] = node;
}

static bool reach_namespace(void *context, struct pw_r_node *environment) {
    struct pw_r_reach *reach = context;
    reach->failed |= !pw_r_set_add(&reach->anchors, environment);
    reach_node(reach, environment);
    return true;
}

static void reach_anchors(struct pw_r_reach *reach, const struct pw_r_api *api) {
    struct pw_r_node *const anchors[] = {api->base, api->base_namespace, api->namespaces,
                                         api->empty, api->nil};
    for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
        reach->failed |= !pw_r_set_add(&reach->anchors, anchors[i]);
        reach_node(reach, anchors[i]);
    }
    // Reached, so that nobody goes into it; never frozen.
    reach->failed |=
        !pw_r_set_add(&reach->anchors, api->global) || !pw_r_set_add(&reach->reached, api->global);
    pw_r_each_namespace(api, reach_namespace, reach);
}

static void reach_symbols_of(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                             struct pw_r_page *page) {
    char *at = (char *)(page + 1);
    for (unsigned i = 0; i < layout->per_page[0]; i++, at += pw_r_node_size(0)) {
        struct pw_r_node *node = (struct pw_r_node *)at;
        if (pw_r_type(node) == PW_R_SYMBOL && pw_r_is_oldest(node)) {
            reach_node(reach, node);
        }
    }
}

// Variables of base that hold what the user's code made last.
static bool holds_users_value(const struct pw_r_node *symbol) {
    static const char *const names[] = {".Last.value", ".Options", ".Traceback", "last.warning",
                                        ".Random.seed"};
    const char *name = (const char *)symbol->fields[0] + sizeof(struct pw_r_vector);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void reach_children(struct pw_r_reach *reach, struct pw_r_node *node,
                           const struct pw_r_node *nothing) {
    if (pw_r_type(node) == PW_R_SYMBOL && node->fields[0] != nothing && holds_users_value(node)) {
        reach_node(reach, node->fields[0]);
        return;
    }
    reach->failed |= !pw_r_each_child(node, reach_node, reach);
}

static void walk(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                 const struct pw_r_api *api) {
    reach_anchors(reach, api);
    for (struct pw_r_page *page = layout->classes[0].pages; page; page = page->next) {
        reach_symbols_of(reach, layout, page);
    }
    for (size_t i = 0; i < reach->count && !reach->failed; i++) {
        reach_children(reach, reach->order[i], api->nil);
    }
}

// --- the second walk ------------------------------------------------------------------------

static void leave(struct pw_r_reach *reach, struct pw_r_node *node) {
    reach->failed |= !pw_r_set_add(&reach->leaves, node);
}

static void leave_keys(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                       const struct pw_r_api *api) {
    struct pw_r_node *reference = *layout->weak_references;
    while (reference != api->nil) {
        struct pw_r_vector *vector = pw_r_as_vector(reference);
        struct pw_r_node *key = vector->elements[PW_R_WEAK_KEY];
        if (key != api->nil && !is_anchor(reach, key)) {
            leave(reach, key);
        }
        reference = vector->elements[PW_R_WEAK_NEXT];
    }
}

struct question {
    const struct pw_r_reach *reach;
    bool yes;
};

static void ask(void *context, struct pw_r_node *child) {
    struct question *question = context;
    question->yes |=
        pw_r_set_has(&question->reach->leaves, child) && !is_anchor(question->reach, child);
}

static bool must_leave(const struct pw_r_reach *reach, struct pw_r_node *node) {
    unsigned type = pw_r_type(node);
    if (type == PW_R_EXTERNAL_POINTER || type == PW_R_WEAK_REFERENCE) {
        return true;
    }
    struct question question = {.reach = reach};
    pw_r_each_child(node, ask, &question);
    return question.yes;
}

// One pass; forwards and backwards in turn, for what is reached from a node mostly comes after it.
static bool pass(struct pw_r_reach *reach, bool backwards) {
    bool changed = false;
    for (size_t i = 0; i < reach->count && !reach->failed; i++) {
        struct pw_r_node *node = reach->order[backwards ? reach->count - 1 - i : i];
        if (!is_anchor(reach, node) && !pw_r_set_has(&reach->leaves, node) &&
            must_leave(reach, node)) {
            leave(reach, node);
            changed = true;
        }
    }
    return changed;
}

static bool spread(struct pw_r_reach *reach) {
    for (int passes = 0; passes < MOST_PASSES; passes++) {
        if (!pass(reach, passes % 2 == 0)) {
            return true;
        }
    }
    return false;
}

// --- both -----------------------------------------------------------------------------------

const char *pw_r_reach_find(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                            const struct pw_r_api *api) {
    *reach = (struct pw_r_reach){.room = pw_r_layout_most_nodes(layout)};
    reach->order = pw_os_map_table(order_size(reach));
    if (!reach->order) {
        return "no memory";
    }
    walk(reach, layout, api);
    leave_keys(reach, layout, api);
    if (reach->failed) {
        return "no memory, or an unknown type of node";
    }
    return spread(reach) && !reach->failed ? NULL : "what finalizers wait for is not found in time";
}

void pw_r_reach_free(struct pw_r_reach *reach) {
    if (reach->order) {
        pw_os_unmap(reach->order, order_size(reach));
    }
    pw_r_set_free(&reach->reached);
    pw_r_set_free(&reach->anchors);
    pw_r_set_free(&reach->leaves);
    *reach = (struct pw_r_reach){0};
}

bool pw_r_reach_may_freeze(const struct pw_r_reach *reach, const struct pw_r_node *node) {
    return pw_r_class(node) < PW_R_SMALL_CLASSES && pw_r_is_oldest(node) &&
           !pw_r_set_has(&reach->leaves, node);
}
