// SPDX-License-Identifier: MIT
//
// One walk, depth first, over everything that anchors keep alive; the global environment is not
// gone into, nor the few variables of base in which R keeps the user's own values. When all that a
// node holds was visited it is decided whether a finalizer's key, a weak reference or an external
// pointer can be reached from it without passing an anchor: such a node is left out. Were it frozen
// and then dropped by the program, it would go on holding what a finalizer waits for. Through an
// anchor all is exact: an anchor lives, and what it holds is looked at before each collection.
// Nodes in circles are decided last, by asking again until nothing changes.
#include "runtime/r/reach.h"

#include "os/os.h"

#include <string.h>

#define MOST_PASSES 64
#define AHEAD       8 // undecided nodes that are fetched into the cache before they are asked

static size_t table_size(const struct pw_r_reach *reach) {
    return pw_pages_for(reach->room * sizeof *reach->table) * PW_PAGE;
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

// --- what is reached ---------------------------------------------------------------------

#define ENTERED ((uintptr_t)1) // its children are on the stack above it

static void reach_node(void *context, struct pw_r_node *node) {
    struct pw_r_reach *reach = context;
    if (pw_r_set_has(&reach->reached, node)) {
        return;
    }
    if (reach->depth + reach->undecided == reach->room || !pw_r_set_add(&reach->reached, node)) {
        reach->failed = true;
        return;
    }
    __builtin_prefetch(node);
    reach->table[reach->depth++] = (uintptr_t)node;
}

static void reach_anchor(struct pw_r_reach *reach, struct pw_r_node *node) {
    reach->failed |= !pw_r_set_add(&reach->safe, node);
    reach_node(reach, node);
}

static bool reach_namespace(void *context, struct pw_r_node *environment) {
    reach_anchor(context, environment);
    return true;
}

static void reach_symbols_of(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                             struct pw_r_page *page) {
    char *at = (char *)(page + 1);
    for (unsigned i = 0; i < layout->per_page[0]; i++, at += pw_r_node_size(0)) {
        struct pw_r_node *node = (struct pw_r_node *)at;
        if (pw_r_type(node) == PW_R_SYMBOL && pw_r_is_oldest(node)) {
            reach_anchor(reach, node);
        }
    }
}

static void reach_anchors(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                          const struct pw_r_api *api) {
    struct pw_r_node *const anchors[] = {api->base, api->base_namespace, api->namespaces,
                                         api->empty, api->nil};
    // Reached, so that nobody goes into it; never frozen.
    reach->failed |=
        !pw_r_set_add(&reach->safe, api->global) || !pw_r_set_add(&reach->reached, api->global);
    for (struct pw_r_page *page = layout->classes[0].pages; page; page = page->next) {
        reach_symbols_of(reach, layout, page);
    }
    for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
        reach_anchor(reach, anchors[i]);
    }
    pw_r_each_namespace(api, reach_namespace, reach);
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

static void enter(struct pw_r_reach *reach, struct pw_r_node *node,
                  const struct pw_r_node *nothing) {
    unsigned class = pw_r_class(node);
    reach->amount.nodes++;
    reach->amount.units += class < PW_R_SMALL_CLASSES ? pw_r_class_units(class) : 0;
    if (pw_r_type(node) != PW_R_SYMBOL) {
        reach->failed |= !pw_r_each_child(node, reach_node, reach);
        return;
    }
    reach->failed |= !pw_r_set_add(&reach->safe, node); // a young one was not told as an anchor
    if (node->fields[0] != nothing && holds_users_value(node)) {
        reach_node(reach, node->fields[0]);
    } else {
        pw_r_each_child(node, reach_node, reach);
    }
}

// --- what is left out ----------------------------------------------------------------------

static void leave_keys(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                       const struct pw_r_api *api) {
    struct pw_r_node *reference = *layout->weak_references;
    while (reference != api->nil) {
        struct pw_r_vector *vector = pw_r_as_vector(reference);
        struct pw_r_node *key = vector->elements[PW_R_WEAK_KEY];
        if (!pw_r_set_has(&reach->safe, key) && pw_r_type(key) != PW_R_SYMBOL) {
            reach->failed |= !pw_r_set_add(&reach->leaves, key);
        }
        reference = vector->elements[PW_R_WEAK_NEXT];
    }
}

struct question {
    const struct pw_r_reach *reach;
    bool leave, unknown;
};

static void ask(void *context, struct pw_r_node *child) {
    struct question *question = context;
    if (!pw_r_set_has(&question->reach->safe, child)) {
        question->leave |= pw_r_set_has(&question->reach->leaves, child);
        question->unknown = true;
    }
}

// False: not known yet.
static bool decide(struct pw_r_reach *reach, struct pw_r_node *node) {
    if (pw_r_set_has(&reach->safe, node) || pw_r_set_has(&reach->leaves, node)) {
        return true;
    }
    unsigned type = pw_r_type(node);
    struct question question = {.reach = reach};
    question.leave = type == PW_R_EXTERNAL_POINTER || type == PW_R_WEAK_REFERENCE;
    pw_r_each_child(node, ask, &question);
    if (question.leave || !question.unknown) {
        struct pw_r_set *set = question.leave ? &reach->leaves : &reach->safe;
        reach->failed |= !pw_r_set_add(set, node);
        return true;
    }
    return false;
}

// Those that are not decided grow from the table's other end: a node is on one side at most.
static uintptr_t *undecided(struct pw_r_reach *reach, size_t at) {
    return &reach->table[reach->room - 1 - at];
}

static void walk(struct pw_r_reach *reach, const struct pw_r_node *nothing) {
    while (reach->depth > 0 && !reach->failed) {
        uintptr_t *top = &reach->table[reach->depth - 1];
        struct pw_r_node *node = (struct pw_r_node *)(*top & ~ENTERED);
        if (!(*top & ENTERED)) {
            *top |= ENTERED;
            enter(reach, node, nothing);
            continue;
        }
        reach->depth--;
        if (!decide(reach, node)) {
            *undecided(reach, reach->undecided++) = (uintptr_t)node;
        }
    }
}

static bool decide_circles(struct pw_r_reach *reach) {
    for (int passes = 0; passes < MOST_PASSES && !reach->failed; passes++) {
        size_t kept = 0;
        for (size_t i = 0; i < reach->undecided; i++) {
            uintptr_t node = *undecided(reach, i);
            if (i + AHEAD < reach->undecided) {
                __builtin_prefetch((void *)*undecided(reach, i + AHEAD));
            }
            if (!decide(reach, (struct pw_r_node *)node)) {
                *undecided(reach, kept++) = node;
            }
        }
        if (kept == reach->undecided) {
            return true; // nothing is reached from them
        }
        reach->undecided = kept;
    }
    return false;
}

// --- the symbol table ----------------------------------------------------------------------
//
// R's table of symbols has no name. Its cells hold a symbol each and the next cell. Others may look
// like that (arguments of a call); but each symbol has one cell of the table, so that a symbol with
// one such cell only, which nothing else reached, has told which one it is.

typedef bool visit_cell(struct pw_r_reach *reach, struct pw_r_node *cell,
                        const struct pw_r_api *api);

// R leaves fields of a node empty that it has not filled yet.
static bool has_type(const struct pw_r_node *node, unsigned type) {
    return node && pw_r_type(node) == type;
}

static bool each_cell(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                      const struct pw_r_api *api, visit_cell *visit) {
    bool all = true;
    for (struct pw_r_page *page = layout->classes[0].pages; page && all; page = page->next) {
        char *at = (char *)(page + 1);
        for (unsigned i = 0; i < layout->per_page[0] && all; i++, at += pw_r_node_size(0)) {
            struct pw_r_node *node = (struct pw_r_node *)at;
            if (pw_r_type(node) == PW_R_PAIRLIST && pw_r_is_oldest(node) &&
                !pw_r_holds_number(node) && node->attributes == api->nil &&
                node->fields[2] == api->nil && !pw_r_set_has(&reach->reached, node) &&
                has_type(node->fields[0], PW_R_SYMBOL)) { // the dearest question last
                all = visit(reach, node, api);
            }
        }
    }
    return all;
}

static bool note_symbol(struct pw_r_reach *reach, struct pw_r_node *cell,
                        const struct pw_r_api *api) {
    (void)api;
    struct pw_r_node *symbol = cell->fields[0];
    return pw_r_set_add(pw_r_set_has(&reach->once, symbol) ? &reach->twice : &reach->once, symbol);
}

static bool is_only(const struct pw_r_reach *reach, const struct pw_r_node *cell) {
    return has_type(cell, PW_R_PAIRLIST) && !pw_r_holds_number(cell) &&
           pw_r_set_has(&reach->once, cell->fields[0]) &&
           !pw_r_set_has(&reach->twice, cell->fields[0]);
}

static bool note_cell(struct pw_r_reach *reach, struct pw_r_node *cell,
                      const struct pw_r_api *api) {
    const struct pw_r_node *at = cell;
    while (at != api->nil && is_only(reach, at)) {
        at = at->fields[1];
    }
    if (at != api->nil) {
        return true;
    }
    reach->amount.nodes++;
    return pw_r_set_add(&reach->cells, cell);
}

static void find_symbol_cells(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                              const struct pw_r_api *api) {
    reach->failed |=
        !each_cell(reach, layout, api, note_symbol) || !each_cell(reach, layout, api, note_cell);
}

// --- all of it ------------------------------------------------------------------------------

const char *pw_r_reach_find(struct pw_r_reach *reach, const struct pw_r_layout *layout,
                            const struct pw_r_api *api) {
    *reach = (struct pw_r_reach){.room = pw_r_layout_most_nodes(layout)};
    reach->table = pw_os_map_table(table_size(reach));
    if (!reach->table) {
        return "no memory";
    }
    reach_anchors(reach, layout, api);
    leave_keys(reach, layout, api);
    walk(reach, api->nil);
    if (reach->failed) {
        return "no memory, or an unknown type of node";
    }
    if (!decide_circles(reach)) {
        return "what finalizers wait for is not found in time";
    }
    find_symbol_cells(reach, layout, api);
    return reach->failed ? "no memory" : NULL;
}

void pw_r_reach_free(struct pw_r_reach *reach) {
    if (reach->table) {
        pw_os_unmap(reach->table, table_size(reach));
    }
    struct pw_r_set *const sets[] = {&reach->reached, &reach->safe,  &reach->leaves,
                                     &reach->once,    &reach->twice, &reach->cells};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        pw_r_set_free(sets[i]);
    }
    *reach = (struct pw_r_reach){0};
}

bool pw_r_reach_may_freeze(const struct pw_r_reach *reach, const struct pw_r_node *node) {
    return pw_r_class(node) < PW_R_SMALL_CLASSES && pw_r_is_oldest(node) &&
           (pw_r_set_has(&reach->cells, node) ||
            (pw_r_set_has(&reach->reached, node) && !pw_r_set_has(&reach->leaves, node)));
}
