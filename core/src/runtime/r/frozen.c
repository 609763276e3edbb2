// SPDX-License-Identifier: MIT
#include "runtime/r/frozen.h"

#include "os/os.h"
#include "runtime/r/gc_guard.h"
#include "runtime/r/layout.h"
#include "runtime/r/limits.h"
#include "runtime/r/reach.h"
#include "runtime/r/rescan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NAMESPACES 4096
#define WORTH_HOLDING   .75 // frozen nodes of a page: its free ones are kept free
#define LOOKS           10  // a collection that took as long as these wrote to many pages
#define FADING_PART     512 // R makes one full collection for a hundred young ones and more
#define DUE             20  // calls: ten collections

static struct {
    bool active, found, checks, busy;
    bool by_hand;      // from then on by hand only
    bool tried;        // to freeze
    bool last_was_end; // nothing was allocated between a collection and the last call
    struct pw_process *process;
    struct pw_r_api api;
    struct pw_r_layout layout;
    struct pw_r_set nodes;
    struct pw_r_frozen_pages pages;
    struct pw_r_roots roots;
    struct pw_r_rescan rescan;
    struct pw_r_page *taken[PW_R_SMALL_CLASSES]; // R's pages that are wholly frozen
    struct pw_r_node *namespaces[MOST_NAMESPACES];
    size_t namespace_count;
    struct pw_r_limits limits;
    uint64_t calls, calls_then; // that may be a collection's; at the last freeze
    bool api_is_whole;          // all of R's functions are found
    uint64_t looked, look_took; // when the last look ended, and how long it took: ns of CPU time
    uint64_t first_look_took, spent_on_hot;
    uint64_t longest;    // collection since the freeze, the look left out
    uint64_t seen, ends; // calls from inside R; those with nothing allocated before
    uint64_t changes;    // freezes and thaws
} state;

static bool may_call(void) {
    return !__atomic_load_n(&state.process->sealed, __ATOMIC_RELAXED);
}

static bool is_frozen(const struct pw_r_node *node) {
    return pw_r_set_has(&state.nodes, node);
}

static struct pw_r_amount amount_of(const struct pw_r_frozen_page *page) {
    return (struct pw_r_amount){page->count, page->count * pw_r_class_units(page->class)};
}

// --- check ------------------------------------------------------------------------------

static const struct pw_r_node *holder;

static void stop(const char *problem, const struct pw_r_node *child) {
    char text[160];
    snprintf(text, sizeof text, "of type %u, class %u, holds type %u, class %u", pw_r_type(holder),
             pw_r_class(holder), child ? pw_r_type(child) : 0, child ? pw_r_class(child) : 0);
    pw_os_warn(problem, text);
    abort();
}

static void check_child(void *context, struct pw_r_node *child) {
    (void)context;
    if (!pw_r_is_marked(child)) {
        stop("freeze=check: a frozen node holds one that a collection has freed: ", child);
    }
}

static bool check_node(void *context, struct pw_r_node *node) {
    (void)context;
    holder = node;
    if (!pw_r_is_oldest(node)) {
        stop("freeze=check: a frozen node is not marked any more: ", NULL);
    }
    if (!pw_r_each_child(node, check_child, NULL)) {
        stop("freeze=check: a frozen node of unknown type: ", NULL);
    }
    return true;
}

static void check_all(void) {
    for (size_t i = 0; i < state.pages.count; i++) {
        pw_r_page_each(&state.pages.pages[i], check_node, NULL);
    }
}

// --- thaw -------------------------------------------------------------------------------

static void ask_younger(void *context, struct pw_r_node *child) {
    *(bool *)context |= !pw_r_is_oldest(child);
}

// Into the list that R's barrier would have put it into.
static bool thaw_node(void *context, struct pw_r_node *node) {
    struct pw_r_heap_class *class = context;
    bool holds_younger = false;
    pw_r_each_child(node, ask_younger, &holds_younger);
    pw_r_unlink(node); // from itself, or from a list of R's that the barrier has put it into
    pw_r_link_before(node,
                     holds_younger ? class->old_to_new[PW_R_OLDEST] : class->old[PW_R_OLDEST]);
    class->old_count[PW_R_OLDEST]++;
    return true;
}

// Those on which nothing is frozen any more.
static void return_pages(unsigned number) {
    struct pw_r_heap_class *class = &state.layout.classes[number];
    for (struct pw_r_page **link = &state.taken[number]; *link;) {
        struct pw_r_page *page = *link;
        if (state.pages.pages[pw_r_frozen_pages_find(&state.pages, (uintptr_t)page)].count > 0) {
            link = &page->next;
            continue;
        }
        *link = page->next;
        page->next = class->pages;
        class->pages = page;
        class->page_count++;
        class->node_count += (int)state.layout.per_page[number];
    }
}

// Into the list of R's free nodes.
static bool release_node(void *context, struct pw_r_node *node) {
    struct pw_r_heap_class *class = context;
    node->info &= ~PW_R_MARK;
    pw_r_link_before(node, class->fresh);
    if (class->free == class->fresh) {
        class->free = node;
    }
    return true;
}

static bool forget_node(void *context, struct pw_r_node *node) {
    (void)context;
    pw_r_set_remove(&state.nodes, node);
    return true;
}

static void thaw_page(struct pw_r_frozen_page *page) {
    struct pw_r_heap_class *class = &state.layout.classes[page->class];
    pw_r_page_each(page, thaw_node, class);
    pw_r_page_each_of(page, page->held, release_node, class);
    page->count = page->held_count = 0;
}

static void forget(void) {
    pw_r_rescan_stop(&state.rescan, may_call());
    pw_r_roots_clear(&state.roots, state.api.nil);
    if (may_call()) {
        pw_r_frozen_pages_free(&state.pages);
        pw_r_set_free(&state.nodes);
    }
    state.namespace_count = 0;
    state.active = false;
    state.changes++;
    PW_GAUGE(&state.process->stats, frozen_nodes, 0);
}

void pw_r_thaw(void) {
    if (!state.active) {
        return;
    }
    pw_r_limits_thaw(&state.limits);
    for (size_t i = 0; i < state.pages.count; i++) {
        thaw_page(&state.pages.pages[i]);
    }
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        return_pages(c);
    }
    forget();
    pw_freeze_thawed(&state.process->freezing);
    PW_COUNT(&state.process->stats, thaws, 1);
}

// --- pages that are written all the time -------------------------------------------------
//
// The program calls these functions. To look at such a page before each collection costs more than
// to have full ones visit its nodes.

static void give_back(struct pw_r_frozen_page *page) {
    pw_r_limits_give_back(&state.limits, amount_of(page));
    pw_r_roots_drop(&state.roots, page, state.api.nil);
    pw_r_page_each(page, forget_node, NULL);
    thaw_page(page);
}

// What frozen nodes hold there are roots from now on. False: they are full.
static bool give_hot_pages_back(void) {
    for (size_t i = 0; i < state.pages.count; i++) {
        if (pw_r_rescan_is_hot(&state.rescan, &state.pages.pages[i])) {
            give_back(&state.pages.pages[i]);
        }
    }
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        return_pages(c);
    }
    pw_r_frozen_pages_settle(&state.pages);
    PW_GAUGE(&state.process->stats, frozen_nodes, state.limits.frozen.nodes);
    return pw_r_rescan_look_anew(&state.rescan);
}

// When looks at them have taken as long as the look at all nodes that it takes.
static bool have_hot_pages_cost_enough(void) {
    const struct pw_r_rescan *rescan = &state.rescan;
    bool most = rescan->hot_now > 0 && 2 * rescan->hot_now >= rescan->written_now;
    state.spent_on_hot += most ? state.look_took : 0;
    // Not at the end of a collection: R has counted already.
    return most && state.spent_on_hot > state.first_look_took &&
           !pw_r_layout_is_collected(&state.layout);
}

// --- freeze -----------------------------------------------------------------------------

static void freeze_node(struct pw_r_frozen_page *page, struct pw_r_node *node, unsigned at) {
    pw_r_unlink(node);
    pw_r_link_to_itself(node);
    page->nodes[at / 64] |= (uint64_t)1 << at % 64;
    page->count++;
    state.layout.classes[page->class].old_count[PW_R_OLDEST]--;
}

static bool may_freeze(const struct pw_r_reach *reach, const struct pw_r_node *node) {
    return node != state.api.global && pw_r_reach_may_freeze(reach, node);
}

// What could not be written down is not frozen.
static void freeze_page(const struct pw_r_reach *reach, struct pw_r_frozen_page *page) {
    unsigned each = state.layout.per_page[page->class];
    for (unsigned at = 0; at < each; at++) {
        struct pw_r_node *node = pw_r_page_node(page, at);
        if (may_freeze(reach, node) && pw_r_is_linked(node) && pw_r_set_add(&state.nodes, node)) {
            freeze_node(page, node, at);
        }
    }
}

static void hold_node(struct pw_r_frozen_page *page, struct pw_r_node *node) {
    size_t at =
        ((uintptr_t)node - (uintptr_t)pw_r_page_node(page, 0)) / pw_r_node_size(page->class);
    pw_r_unlink(node);
    pw_r_link_to_itself(node);
    node->info |= PW_R_MARK; // R sorts and releases what is not marked
    page->held[at / 64] |= (uint64_t)1 << at % 64;
    page->held_count++;
}

// Free nodes of pages with frozen ones: what would be made there would have these looked at again.
static void hold_free_nodes(unsigned number, double worth) {
    struct pw_r_heap_class *class = &state.layout.classes[number];
    struct pw_r_frozen_page *page = NULL;
    for (struct pw_r_node *node = class->free, *next; node != class->fresh; node = next) {
        next = node->next;
        if (!page || (uintptr_t)node < (uintptr_t)page->page ||
            (uintptr_t)node >= pw_r_page_end(&state.pages, page)) {
            size_t at = pw_r_frozen_pages_find(&state.pages, (uintptr_t)node);
            page = &state.pages.pages[at]; // each of R's pages is there
        }
        if (page->count > 0 && page->count >= worth * state.layout.per_page[number]) {
            class->free = class->free == node ? next : class->free;
            hold_node(page, node);
        }
    }
}

// No collection goes through what is left of these pages: nothing.
static void take_pages(unsigned number) {
    struct pw_r_heap_class *class = &state.layout.classes[number];
    for (struct pw_r_page **link = &class->pages; *link;) {
        struct pw_r_page *page = *link;
        size_t at = pw_r_frozen_pages_find(&state.pages, (uintptr_t)page);
        bool taken = at < state.pages.count && state.pages.pages[at].page == page &&
                     pw_r_page_is_taken(&state.pages, &state.pages.pages[at]);
        if (!taken) {
            link = &page->next;
            continue;
        }
        *link = page->next;
        page->next = state.taken[number];
        state.taken[number] = page;
        class->page_count--;
        class->node_count -= (int)state.layout.per_page[number];
    }
}

static bool note_namespace(void *context, struct pw_r_node *environment) {
    (void)context;
    if (state.namespace_count < MOST_NAMESPACES) {
        state.namespaces[state.namespace_count++] = environment;
    }
    return state.namespace_count < MOST_NAMESPACES;
}

static struct pw_r_amount all_frozen(void) {
    struct pw_r_amount all = {0};
    for (size_t i = 0; i < state.pages.count; i++) {
        struct pw_r_amount one = amount_of(&state.pages.pages[i]);
        all.nodes += one.nodes;
        all.units += one.units;
    }
    return all;
}

static void freeze_all(const struct pw_r_reach *reach, bool for_forks, bool may_grow) {
    for (size_t i = 0; i < state.pages.count; i++) {
        freeze_page(reach, &state.pages.pages[i]);
    }
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        hold_free_nodes(c, for_forks ? 0 : WORTH_HOLDING);
    }
    pw_r_frozen_pages_settle(&state.pages);
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        take_pages(c);
    }
    pw_r_limits_freeze(&state.limits, &state.layout, all_frozen(), may_grow);
    state.last_was_end = true; // the next call is taken for a start
    state.longest = state.spent_on_hot = 0;
    state.active = true;
    state.changes++;
    PW_GAUGE(&state.process->stats, frozen_nodes, state.limits.frozen.nodes);
}

static const char *begin(struct pw_r_freeze_how how, bool may_grow) {
    struct pw_r_reach reach;
    const char *problem = pw_r_reach_find(&reach, &state.layout, &state.api);
    state.namespace_count = 0;
    if (!problem && !pw_r_each_namespace(&state.api, note_namespace, NULL)) {
        problem = "too many namespaces";
    }
    if (!problem && !pw_r_limits_fit(&state.layout, reach.amount)) {
        problem = "R's limits are lower than what would be frozen";
    }
    if (!problem && !pw_r_frozen_pages_make(&state.pages, &state.layout)) {
        problem = "no memory";
    }
    if (!problem) {
        freeze_all(&reach, how.for_forks, may_grow);
        state.rescan = (struct pw_r_rescan){.marker = state.rescan.marker,
                                            .pages = &state.pages,
                                            .frozen = &state.nodes,
                                            .roots = &state.roots,
                                            .nothing = state.api.nil,
                                            .global = state.api.global};
        pw_r_rescan_start(&state.rescan, how.watch);
    }
    pw_r_reach_free(&reach);
    return problem;
}

// --- before a collection --------------------------------------------------------------------

// A frozen node that R's barrier has linked: its young children are looked at with the others.
static void take_off_lists(void) {
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        struct pw_r_node *peg = state.layout.classes[c].old_to_new[PW_R_OLDEST];
        for (struct pw_r_node *node = peg->next; node != peg;) {
            struct pw_r_node *next = node->next;
            if (is_frozen(node)) {
                pw_r_unlink(node);
                pw_r_link_to_itself(node);
            }
            node = next;
        }
    }
}

static bool is_namespace(const struct pw_r_node *environment) {
    for (size_t i = 0; i < state.namespace_count; i++) {
        if (state.namespaces[i] == environment) {
            return true;
        }
    }
    return false;
}

// Dies before its time, or not at all.
static bool may_be_waited_for(const struct pw_r_node *key) {
    const struct pw_r_api *api = &state.api;
    return !is_frozen(key) || is_namespace(key) || key == api->base || key == api->nil ||
           key == api->namespaces || key == api->empty;
}

// Somebody waits for a frozen node to die since it was frozen. R goes through this list as well, at
// each collection.
static bool is_waited_for(void) {
    struct pw_r_node *reference = *state.layout.weak_references;
    while (reference != state.api.nil) {
        struct pw_r_vector *vector = pw_r_as_vector(reference);
        if (!may_be_waited_for(vector->elements[PW_R_WEAK_KEY])) {
            return true;
        }
        reference = vector->elements[PW_R_WEAK_NEXT];
    }
    return false;
}

static bool count_namespace(void *context, struct pw_r_node *environment) {
    *(size_t *)context += is_namespace(environment);
    return true;
}

static bool was_unloaded(void) {
    size_t found = 0;
    pw_r_each_namespace(&state.api, count_namespace, &found);
    return found < state.namespace_count;
}

static bool look_at_pages(uint64_t start) {
    bool is_first = state.rescan.begins;
    if (!pw_r_rescan_look(&state.rescan, may_call())) {
        return false;
    }
    state.look_took = pw_os_thread_cpu_ns() - start;
    if (is_first) {
        state.first_look_took = state.look_took;
    }
    if (!have_hot_pages_cost_enough()) {
        return true;
    }
    state.spent_on_hot = 0;
    return give_hot_pages_back();
}

// By itself alone: who asks for a freeze has it, and tests check what they asked for.
static bool is_worth_it(void) {
    bool by_itself = state.process->options.freeze == PW_FREEZE_AUTO && !state.by_hand;
    // Without written pages each collection would look at all nodes: dearer than what it saves.
    return !by_itself || (state.rescan.watches && !state.process->freezing.in_vain);
}

static void look(void) {
    uint64_t start = pw_os_thread_cpu_ns();
    take_off_lists();
    if (!is_worth_it() || is_waited_for() || was_unloaded() || !look_at_pages(start) ||
        !pw_r_roots_settle(&state.roots, &state.layout, state.api.nil)) {
        pw_r_thaw();
    }
    pw_r_limits_look(&state.limits);
    if (state.active && !state.rescan.watches) {
        PW_COUNT(&state.process->stats, fallback_written, 1);
    }
    state.looked = pw_os_thread_cpu_ns();
    state.look_took = state.looked - start;
    pw_freeze_looked(&state.process->freezing, state.look_took);
}

// R tells by nothing but its time what kind of collection it was. One that was slow for a reason of
// its own counts less with each that follows.
static bool was_full(uint64_t took) {
    state.longest -= state.longest / FADING_PART;
    state.longest = took > state.longest ? took : state.longest;
    return took >= state.longest / 2;
}

static void after_collection(void) {
    pw_r_limits_collected(&state.limits);
    uint64_t took = pw_os_thread_cpu_ns() - state.looked;
    bool full = was_full(took);
    if (full) {
        pw_r_limits_collected_fully(&state.limits);
    }
    if (full || took > LOOKS * state.look_took) {
        pw_r_rescan_collected(&state.rescan, may_call());
    }
}

static bool is_inside_r(const void *site) {
    uintptr_t address = (uintptr_t)site;
    return address >= state.layout.code_start && address < state.layout.code_end;
}

static void note_call(const void *site) {
    if (is_inside_r(site) && state.layout.classes) {
        state.seen++;
        state.ends += pw_r_layout_is_collected(&state.layout);
    }
}

// The collector asks at its start and at its end, and allocates nothing in between. Where nothing
// was allocated before the start either, both look like an end, and both are taken for a start.
void pw_r_before_collection(struct pw_process *process, const void *site) {
    if (!state.found) {
        state.calls += process->options.freeze == PW_FREEZE_CHECK;
        note_call(site);
        return;
    }
    if (!is_inside_r(site) || (state.api.is_collecting && !state.api.is_collecting())) {
        return; // proc.time() asks as well
    }
    note_call(site);
    state.calls++;
    if (!state.active) {
        return;
    }
    bool is_collected = pw_r_layout_is_collected(&state.layout);
    bool is_end = is_collected && !state.last_was_end;
    state.last_was_end = is_collected;
    if (is_collected && state.checks) {
        check_all();
    }
    if (is_end) {
        after_collection();
    } else {
        if (is_collected) { // it may be an end all the same
            pw_r_limits_keep_growth_in_bounds(&state.limits);
        }
        look();
    }
}

// --- when R code may run ----------------------------------------------------------------------

static const char *prepare(struct pw_r_freeze_how how) {
    if (!pw_r_api_find(&state.api)) {
        return "R's functions are not found";
    }
    bool collecting = !how.in_finalizer && state.api.is_collecting();
    if (collecting || !may_call()) {
        return "not now: R is collecting, or no system calls may be made";
    }
    return NULL;
}

static const char *have_collections_seen(void) {
    if (!pw_r_api_call(&state.api, "gc.time", 1)) {
        return "gc.time fails";
    }
    state.process->getrusage_works = true; // called again, it would thaw
    return NULL;
}

struct calls {
    uint64_t seen, ends;
};

static struct calls calls_now(void) {
    return (struct calls){state.seen, state.ends};
}

// Each collection must call us twice, and nothing was allocated before the second call.
static bool are_seen(unsigned collections, struct calls before) {
    return state.seen - before.seen >= (uint64_t)2 * collections &&
           state.ends - before.ends >= collections;
}

static bool is_called(void) {
    struct calls before = calls_now();
    return pw_r_collect_young(&state.api) && are_seen(1, before);
}

// Once: those collections that it takes tell as well whether they are seen.
static const char *find(void) {
    struct calls before = calls_now();
    const char *problem = pw_r_layout_find(&state.layout, &state.api);
    if (problem) {
        return problem;
    }
    state.found = are_seen(state.layout.collections, before);
    return state.found ? NULL : "R's collections are not seen";
}

static const char *check(void) {
    const char *problem = pw_r_layout_check(&state.layout, &state.api);
    if (problem) {
        return problem;
    }
    return is_called() ? NULL : "R's collections are not seen";
}

// Twice: what lives is of the oldest generation then, and R gives free pages back.
static void collect_all(void) {
    state.api.collect();
    state.api.collect();
}

static const char *may_freeze_now(struct pw_r_freeze_how how) {
    const struct pw_options *options = &state.process->options;
    if (options->freeze == PW_FREEZE_AUTO &&
        (options->policy == PW_POLICY_GENERAL || !pw_r_rescan_can_watch())) {
        return "the kernel does not tell of written pages, or R's are blocks of ours";
    }
    return prepare(how);
}

static bool lets_grow(void) {
    const char *growth = getenv("R_GC_MEM_GROW"); // see ?Memory
    return (!growth || strcmp(growth, "0") != 0) && !pw_r_layout_limits_nodes(&state.api);
}

static const char *freeze(struct pw_r_freeze_how how) {
    const char *problem = have_collections_seen();
    bool may_grow = !problem && lets_grow();
    if (!problem && how.for_forks) {
        collect_all(); // what was frozen before, and is dropped, among it
    }
    if (!problem) {
        problem = state.found ? check() : find();
    }
    if (!problem && !pw_r_guard_gc_time(&state.api, pw_r_thaw_by_hand)) {
        problem = "gc.time is not found";
    }
    if (!problem && !pw_r_roots_make(&state.roots, &state.api)) {
        problem = "no memory";
    }
    if (!problem) {
        problem = begin(how, may_grow);
    }
    if (!problem && !is_called()) { // and R's counters are right from here on
        problem = "R's collections are not seen";
    }
    if (!problem && how.for_forks) {
        collect_all();
    }
    if (!problem && !state.active) {
        problem = "what was frozen had to be given back at once";
    }
    return problem;
}

// Only a collection counts the small vectors that were frozen. Until then as much would be taken
// for free, and taken: more would be in use than R's limit, which it can then not tell.
// No finalizer that it runs freezes again, no interrupt ends it alone, and no signal is lost.
struct thawing {
    int suspended;
    bool busy;
};

static struct pw_r_node *thaw_and_collect(void *context) {
    (void)context;
    *state.api.suspended = 1;
    pw_r_thaw();
    pw_r_collect_young(&state.api);
    return state.api.nil;
}

// A finalizer, too, runs with interrupts suspended, and R would throw these signals away.
static void raise_signals(void) {
    int suspended = *state.api.suspended;
    *state.api.suspended = 0;
    pw_os_user_signals_take();
    *state.api.suspended = suspended;
}

// R may call it twice.
static void end_thawing(void *context) {
    const struct thawing *thawing = context;
    *state.api.suspended = thawing->suspended;
    if (state.busy && !thawing->busy) {
        state.busy = false;
        raise_signals();
    }
}

void pw_r_thaw_by_hand(void) {
    if (!state.active) {
        return;
    }
    struct thawing thawing = {.suspended = *state.api.suspended, .busy = state.busy};
    if (!state.busy) { // else they are put off already
        state.busy = true;
        pw_os_user_signals_put_off();
    }
    state.api.run(thaw_and_collect, &thawing, end_thawing, &thawing);
}

// --- from its beginning to its end, whatever ends it ---------------------------------------------

struct attempt {
    struct pw_r_freeze_how how;
    const char *problem;
    bool again; // something was frozen
    uint64_t start;
    int suspended; // what R had there
};

static void note(const struct attempt *attempt) {
    struct pw_process *process = state.process;
    if (attempt->problem) {
        PW_COUNT(&process->stats, fallback_freeze, 1);
    } else {
        PW_COUNT(&process->stats, freezes, 1);
    }
    state.calls_then = state.calls;
    state.tried = true;
    struct pw_freeze_try made = {.again = attempt->again,
                                 .done = state.active,
                                 .start = attempt->start,
                                 .end = pw_os_thread_cpu_ns()};
    pw_freeze_tried(&process->freezing, &made);
    state.busy = false;
}

static struct pw_r_node *make_attempt(void *context) {
    struct attempt *attempt = context;
    *state.api.suspended = 1;
    pw_r_thaw_by_hand();
    attempt->problem = freeze(attempt->how);
    if (attempt->problem) {
        pw_r_thaw_by_hand();
    }
    return state.api.nil;
}

// R calls this as well where an error of its own, such as a limit on its memory, goes past us, and
// once more where a handler that waited ends R.
static void end_attempt(void *context) {
    struct attempt *attempt = context;
    if (!state.busy) {
        return;
    }
    *state.api.suspended = attempt->suspended;
    if (attempt->problem) {
        pw_r_thaw(); // R may be going past us: no moment for a collection
    }
    note(attempt);
    raise_signals();
}

// R looks for a pending interrupt at the end of each collection. One that came meanwhile would end
// what we have R evaluate, and be lost with it, or go past us. It stays pending: R sees it next.
// Other signals R throws away while interrupts are suspended.
static void attempt_suspended(struct attempt *attempt) {
    attempt->problem = "R had an error";
    attempt->suspended = *state.api.suspended;
    pw_os_user_signals_put_off();
    state.api.run(make_attempt, attempt, end_attempt, attempt);
}

uint64_t pw_r_freeze_changes(void) {
    return state.changes;
}

bool pw_r_freeze_can_be(void) {
    state.api_is_whole = state.api_is_whole || pw_r_api_find(&state.api);
    return state.api_is_whole;
}

static bool pays(struct pw_process *process) {
    uint64_t now = pw_os_thread_cpu_ns();
    ptrdiff_t loaded = state.api.length(state.api.namespaces); // R's layout is not known yet
    pw_freeze_note_loaded(&process->freezing, (size_t)loaded, now);
    return pw_freeze_pays(&process->freezing, now);
}

bool pw_r_freeze_is_due(struct pw_process *process) {
    if (state.busy || state.by_hand || !state.api_is_whole || !pw_is_on()) {
        return false;
    }
    return process->options.freeze == PW_FREEZE_CHECK
               ? (!state.tried || state.calls - state.calls_then >= DUE)
               : pays(process);
}

const char *pw_r_freeze(struct pw_process *process, struct pw_r_freeze_how how) {
    if (state.busy) {
        return "not now: it is being done";
    }
    state.busy = true; // R code runs meanwhile
    struct attempt attempt = {.how = how, .again = state.active, .start = pw_os_thread_cpu_ns()};
    state.by_hand |= how.by_hand;
    state.process = process;
    state.checks = process->options.freeze == PW_FREEZE_CHECK;
    attempt.problem = may_freeze_now(how);
    if (attempt.problem) {
        note(&attempt); // what was frozen stays so
    } else {
        attempt_suspended(&attempt);
    }
    return attempt.problem;
}
