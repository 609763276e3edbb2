// SPDX-License-Identifier: MIT
#include "runtime/r/layout.h"

#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR        100000 // nodes, at most, that two collections in a row leave behind one
#define FEW         32     // nodes that a call of ours makes
#define ENDS        1000   // nodes at either end of a list that are looked at
#define TRIES       4
#define MOST_WORDS  16    // places of a value, before they are told apart
#define LEAST_LIMIT 10000 // of R's own, which begin at more
#define HEADER_SIZE sizeof(struct pw_r_vector)

static const int read_versions[] = {402, 405, 406}; // their sources, as 100 major + minor
static const unsigned units_of[PW_R_SMALL_CLASSES] = {0, 1, 2, 4, 8, 16};

struct segment {
    uintptr_t start, end;
};

struct search {
    struct pw_r_layout *layout;
    const struct pw_r_api *api;
    struct segment data; // R's own, which may be written
    uintptr_t inside;    // an address in R
};

unsigned pw_r_class_units(unsigned class) {
    return units_of[class];
}

size_t pw_r_node_size(unsigned class) {
    return class == 0 ? sizeof(struct pw_r_node) : HEADER_SIZE + units_of[class] * 8;
}

// --- where R is --------------------------------------------------------------------

static struct segment segment_of(const struct dl_phdr_info *module, int number) {
    uintptr_t start = module->dlpi_addr + module->dlpi_phdr[number].p_vaddr;
    return (struct segment){start, start + module->dlpi_phdr[number].p_memsz};
}

static int look_at_module(struct dl_phdr_info *module, size_t size, void *context) {
    struct search *search = context;
    struct segment code = {0, 0}, data = {0, 0}, read_only = {0, 0};
    (void)size;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X)) {
            code = segment_of(module, i);
        } else if (header->p_type == PT_LOAD && (header->p_flags & PF_W)) {
            data = segment_of(module, i);
        } else if (header->p_type == PT_GNU_RELRO) {
            read_only = segment_of(module, i);
        }
    }
    if (search->inside < code.start || search->inside >= code.end) {
        return 0;
    }
    search->layout->code_start = code.start;
    search->layout->code_end = code.end;
    search->data = data;
    if (read_only.end > data.start && read_only.end < data.end) {
        search->data.start = read_only.end; // it is protected once the loader is done
    }
    return 1;
}

static bool is_in_data(const struct search *search, const void *address, size_t size) {
    uintptr_t start = (uintptr_t)address;
    return start >= search->data.start && start + size <= search->data.end;
}

// --- versions and states -------------------------------------------------------------

static const char *try_version(struct search *search) {
    const struct pw_r_api *api = search->api;
    int failed = 0, major = 0, minor = 0;
    struct pw_r_node *text = api->evaluate(api->symbol("R.version.string"), api->base, &failed);
    if (failed || !text || api->type_of(text) != PW_R_STRINGS ||
        sscanf(api->text(api->string_element(text, 0)), "R version %d.%d", &major, &minor) != 2) {
        return "the version of R is not known";
    }
    for (size_t i = 0; i < sizeof read_versions / sizeof *read_versions; i++) {
        if (read_versions[i] == 100 * major + minor) {
            return NULL;
        }
    }
    return "an unknown version of R";
}

// NA asks, and changes nothing; gctorture(NA) does as well, up to R 4.4.
static const char *try_state(struct search *search) {
    struct pw_r_node *torture = pw_r_api_call(search->api, "gctorture2", PW_R_NOT_AVAILABLE);
    if (!torture || search->api->type_of(torture) != PW_R_INTEGER ||
        search->api->integers(torture)[0] != 0) {
        return "gctorture is on";
    }
    return NULL;
}

// --- words that have a value ---------------------------------------------------------------

struct places {
    uint64_t *words[MOST_WORDS];
    size_t count;
};

static void find_words(const struct search *search, uint64_t value, struct places *places) {
    places->count = 0;
    for (uintptr_t at = (search->data.start + 7) & ~(uintptr_t)7; at + 8 <= search->data.end;
         at += 8) {
        if (*(uint64_t *)at == value && places->count < MOST_WORDS) {
            places->words[places->count++] = (uint64_t *)at;
        }
    }
}

// --- the classes' lists ---------------------------------------------------------------

static bool is_linked(const struct pw_r_node *node) {
    return node->next->previous == node && node->previous->next == node;
}

static bool is_class(const struct search *search, const struct pw_r_heap_class *class) {
    if (!is_in_data(search, class, sizeof *class)) {
        return false;
    }
    for (unsigned g = 0; g < PW_R_GENERATIONS; g++) {
        if (class->old[g] != &class->old_peg[g] ||
            class->old_to_new[g] != &class->old_to_new_peg[g]) {
            return false;
        }
    }
    return class->fresh == &class->fresh_peg;
}

// The class whose next node is the one behind `cell`, which was just made.
static struct pw_r_heap_class *class_of_new(const struct search *search,
                                            const struct pw_r_node *cell) {
    struct places places;
    struct pw_r_heap_class *found = NULL;
    find_words(search, (uintptr_t)cell->next, &places);
    for (size_t i = 0; i < places.count; i++) {
        char *place = (char *)places.words[i];
        struct pw_r_heap_class *class =
            (struct pw_r_heap_class *)(place - offsetof(struct pw_r_heap_class, free));
        if (is_class(search, class)) {
            if (found) {
                return NULL;
            }
            found = class;
        }
    }
    return found;
}

static const char *find_classes(struct search *search) {
    const struct pw_r_api *api = search->api;
    struct pw_r_node *cell = api->cons(api->nil, api->nil);
    if (pw_r_class(cell) != 0 || !is_linked(cell)) {
        return "a new node looks otherwise";
    }
    struct pw_r_heap_class *first = class_of_new(search, cell);
    if (!first) {
        return "no list of nodes found";
    }
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        if (!is_class(search, &first[c])) {
            return "the lists of nodes look otherwise";
        }
    }
    if (is_class(search, first - 1) || is_class(search, first + PW_R_CLASSES)) {
        return "another number of classes of nodes";
    }
    search->layout->classes = first;
    return NULL;
}

// --- nodes -----------------------------------------------------------------------------

// Nodes are taken from the list one after the other; a large vector is put at its end.
static bool is_newest(const struct search *search, const struct pw_r_node *node) {
    const struct pw_r_heap_class *class = &search->layout->classes[pw_r_class(node)];
    bool is_small = pw_r_class(node) < PW_R_SMALL_CLASSES;
    return is_linked(node) && !pw_r_is_marked(node) &&
           node->next == (is_small ? class->free : &class->fresh_peg);
}

// A vector of each class is where its size says; what is large is a class of its own.
static const char *try_sizes(struct search *search) {
    static const struct {
        ptrdiff_t length; // of reals
        unsigned class;
    } wanted[] = {{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {8, 4}, {9, 5}, {16, 5}, {17, 7}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct pw_r_node *vector = search->api->allocate_vector(PW_R_REAL, wanted[i].length);
        if (pw_r_class(vector) != wanted[i].class || pw_r_type(vector) != PW_R_REAL ||
            pw_r_as_vector(vector)->length != wanted[i].length ||
            (char *)search->api->reals(vector) != (char *)vector + HEADER_SIZE ||
            !is_newest(search, vector)) {
            return "vectors look otherwise";
        }
    }
    return NULL;
}

static bool has_fields(struct pw_r_node *node, const struct pw_r_node *one,
                       const struct pw_r_node *two, const struct pw_r_node *three) {
    return node->fields[0] == one && node->fields[1] == two && node->fields[2] == three;
}

static bool has_header(const struct pw_r_api *api, struct pw_r_node *node, unsigned type) {
    return api->type_of(node) == (int)type && pw_r_type(node) == type &&
           (!api->mark_of || api->mark_of(node) == pw_r_is_marked(node)) &&
           (api->alternative(node) != 0) == pw_r_is_alternative(node) &&
           (unsigned)api->references(node) == pw_r_references(node) &&
           (type == PW_R_STRING || api->attributes(node) == node->attributes);
}

// Of 1:2, which R keeps as its two ends.
static bool has_alternative(const struct pw_r_api *api) {
    struct pw_r_node *length = api->protect(api->allocate_vector(PW_R_REAL, 1));
    api->reals(length)[0] = 2;
    int failed = 0;
    struct pw_r_node *call = api->protect(api->call2(api->symbol("seq_len"), length));
    struct pw_r_node *numbers = api->evaluate(call, api->base, &failed);
    api->unprotect(2);
    return !failed && api->alternative(numbers) && has_header(api, numbers, PW_R_INTEGER) &&
           pw_r_class(numbers) == 0;
}

static const char *try_kinds(struct search *search) {
    const struct pw_r_api *api = search->api;
    int failed = 0;
    struct pw_r_node *name = api->symbol("gc"), *closure = api->evaluate(name, api->base, &failed);
    if (failed) {
        return "gc is not found";
    }
    struct pw_r_node *cell = api->protect(api->cons(name, api->nil));
    struct pw_r_node *list = api->protect(api->allocate_vector(PW_R_LIST, 3));
    struct pw_r_node *base = api->base_namespace;
    bool right =
        has_header(api, cell, PW_R_PAIRLIST) && has_fields(cell, name, api->nil, api->tag(cell)) &&
        has_header(api, list, PW_R_LIST) && pw_r_as_vector(list)->length == 3 &&
        pw_r_as_vector(list)->elements[2] == api->nil && has_header(api, name, PW_R_SYMBOL) &&
        name->fields[0] == api->symbol_name(name) && name->fields[1] == api->symbol_value(name) &&
        has_header(api, name->fields[0], PW_R_STRING) && has_header(api, base, PW_R_ENVIRONMENT) &&
        has_fields(base, api->frame(base), api->enclosure(base), api->table(base)) &&
        has_header(api, api->namespaces, PW_R_ENVIRONMENT) &&
        has_header(api, closure, PW_R_CLOSURE) &&
        has_fields(closure, api->formals(closure), closure->fields[1],
                   api->closure_environment(closure));
    api->unprotect(2);
    return right && has_alternative(api) ? NULL : "nodes look otherwise";
}

// --- pages and counts --------------------------------------------------------------------

struct counts {
    long marked[PW_R_GENERATIONS];
};

static bool count_page(const struct pw_r_page *page, unsigned class, unsigned nodes,
                       struct counts *counts) {
    const char *at = (const char *)(page + 1);
    for (unsigned i = 0; i < nodes; i++, at += pw_r_node_size(class)) {
        const struct pw_r_node *node = (const struct pw_r_node *)at;
        if (pw_r_class(node) != class) {
            return false;
        }
        counts->marked[pw_r_generation(node)] += pw_r_is_marked(node);
    }
    return true;
}

static bool count_pages(struct search *search, unsigned number, struct counts *counts) {
    struct pw_r_heap_class *class = &search->layout->classes[number];
    int pages = 0;
    if (class->page_count == 0) {
        return class->pages == NULL && class->node_count == 0;
    }
    unsigned each = (unsigned)(class->node_count / class->page_count);
    search->layout->per_page[number] = each;
    if (class->node_count % class->page_count != 0 || each * pw_r_node_size(number) > 8000) {
        return false;
    }
    for (struct pw_r_page *page = class->pages; page; page = page->next) {
        if (++pages > class->page_count || !count_page(page, number, each, counts)) {
            return false;
        }
    }
    return pages == class->page_count;
}

static bool is_old(const struct pw_r_node *node, unsigned class, unsigned generation) {
    return pw_r_is_marked(node) && pw_r_class(node) == class &&
           pw_r_generation(node) == generation && is_linked(node);
}

// Old nodes from either end of a list, at most; a shorter list's are looked at twice.
static bool are_ends_old(const struct pw_r_node *peg, unsigned class, unsigned generation) {
    const struct pw_r_node *first = peg->next, *last = peg->previous;
    for (int i = 0; i < ENDS && first != peg && last != peg; i++) {
        if (!is_old(first, class, generation) || !is_old(last, class, generation)) {
            return false;
        }
        first = first->next;
        last = last->previous;
    }
    return (first == peg) == (last == peg);
}

// Large vectors lie in no pages.
static bool count_list(const struct pw_r_node *peg, unsigned class, unsigned generation,
                       struct counts *counts) {
    for (const struct pw_r_node *node = peg->next; node != peg; node = node->next) {
        if (!is_old(node, class, generation)) {
            return false;
        }
        counts->marked[generation]++;
    }
    return true;
}

// Each marked node is counted, and so each node of R's lists of old nodes is a marked one in a
// page.
static const char *try_counts(struct search *search) {
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        struct pw_r_heap_class *class = &search->layout->classes[c];
        struct counts counts = {{0}};
        if (c < PW_R_SMALL_CLASSES && !count_pages(search, c, &counts)) {
            return "the pages of nodes look otherwise";
        }
        for (unsigned g = 0; g < PW_R_GENERATIONS; g++) {
            bool small = c < PW_R_SMALL_CLASSES;
            bool right = small ? are_ends_old(&class->old_peg[g], c, g) &&
                                     are_ends_old(&class->old_to_new_peg[g], c, g)
                               : count_list(&class->old_peg[g], c, g, &counts) &&
                                     count_list(&class->old_to_new_peg[g], c, g, &counts);
            if (!right || counts.marked[g] != class->old_count[g]) {
                return "the counts of nodes differ from what there is";
            }
        }
    }
    return NULL;
}

// --- variables that have no name ----------------------------------------------------------

// The head of the list is what changes to each new one, which has the earlier one behind it.
static const char *find_weak_references(struct search *search) {
    const struct pw_r_api *api = search->api;
    struct places places;
    struct pw_r_node *key = api->protect(api->new_node(PW_R_ENVIRONMENT));
    struct pw_r_node *first = api->protect(api->weak_reference(key, api->nil, api->nil, 0));
    find_words(search, (uintptr_t)first, &places);
    struct pw_r_node *second = api->protect(api->weak_reference(key, api->nil, api->nil, 0));
    struct pw_r_node **found = NULL;
    size_t matches = 0;
    for (size_t i = 0; i < places.count; i++) {
        if (*places.words[i] == (uintptr_t)second) {
            found = (struct pw_r_node **)places.words[i];
            matches++;
        }
    }
    bool right = matches == 1 && pw_r_type(second) == PW_R_WEAK_REFERENCE &&
                 pw_r_as_vector(second)->elements[PW_R_WEAK_NEXT] == first &&
                 pw_r_as_vector(second)->elements[PW_R_WEAK_KEY] == key;
    api->unprotect(3);
    search->layout->weak_references = found;
    return right ? NULL : "the list of weak references is not found";
}

// --- two collections --------------------------------------------------------------------------

enum limit { NODES = 4, VECTORS = 5 }; // where gc() has R's limits

struct collection {
    uint64_t limits[VECTORS + 1];
};

static bool collect_young(const struct search *search, struct collection *collection) {
    const struct pw_r_api *api = search->api;
    struct pw_r_node *result = pw_r_collect_young(api);
    search->layout->collections++;
    if (!result || api->type_of(result) != PW_R_REAL || api->length(result) <= VECTORS) {
        return false;
    }
    for (int limit = NODES; limit <= VECTORS; limit++) {
        double value = api->reals(result)[limit];
        if (!(value >= LEAST_LIMIT && value < 0x1p52)) {
            return false;
        }
        collection->limits[limit] = (uint64_t)value;
    }
    return true;
}

// Each place is given a value of its own. A young collection changes no limit, and tells it.
static void mark_places(const struct places *places, uint64_t value) {
    for (size_t i = 0; i < places->count; i++) {
        *places->words[i] = value + 1 + i;
    }
}

static void restore_places(const struct places *places, uint64_t value) {
    for (size_t i = 0; i < places->count; i++) {
        if (*places->words[i] == value + 1 + i) {
            *places->words[i] = value;
        }
    }
}

static uint64_t *told_place(const struct places *places, uint64_t value, uint64_t told) {
    bool is_all = places->count < MOST_WORDS;
    return is_all && told > value && told - value <= places->count ? places->words[told - value - 1]
                                                                   : NULL;
}

// Is `node` near the end of this list?
static bool is_near_end(const struct pw_r_node *node, const struct pw_r_node *peg) {
    for (long left = NEAR; left > 0 && node != peg; left--, node = node->next) {
        if (node->next->previous != node) {
            return false;
        }
    }
    return node == peg;
}

static bool is_last(const struct pw_r_node *node, const struct pw_r_node *peg) {
    return node->next == peg && peg->previous == node && is_linked(node);
}

// After collect_young, which allocates its result and a few cells.
static bool is_just_collected(const struct search *search) {
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        const struct pw_r_heap_class *class = &search->layout->classes[c];
        const struct pw_r_node *node = class->fresh_peg.next;
        for (int i = 0; i < FEW && node != class->free; i++) {
            node = node->next;
        }
        if (node != class->free) {
            return false;
        }
    }
    return true;
}

static bool is_young_survivor(const struct pw_r_node *node) {
    return pw_r_is_marked(node) && pw_r_generation(node) == 0;
}

// What R's barrier does with an old node of either generation that is made to hold a new one, and
// what the collection after that does with the new ones. `cell` has survived one collection. On the
// way the places of R's limits are told apart.
static bool try_barrier(struct search *search, struct pw_r_node *cell,
                        const struct collection *before, struct collection *after,
                        struct places places[]) {
    const struct pw_r_api *api = search->api;
    struct pw_r_heap_class *class = search->layout->classes;
    struct pw_r_node *registry = api->namespaces, *name = api->symbol("pagewise");
    api->set_first(cell, api->cons(api->nil, api->nil));
    bool right = is_last(cell, &class->old_to_new_peg[0]);
    api->set_attribute(registry, name, api->logical(1)); // nobody reads it, and it goes away below
    right = right && is_last(registry, &class->old_to_new_peg[PW_R_OLDEST]);
    right = right && !pw_r_is_marked(cell->fields[0]) && !pw_r_is_marked(registry->attributes);
    for (int limit = NODES; limit <= VECTORS; limit++) {
        find_words(search, before->limits[limit], &places[limit]);
        mark_places(&places[limit], before->limits[limit]);
    }
    right = collect_young(search, after) && right;
    for (int limit = NODES; limit <= VECTORS; limit++) {
        restore_places(&places[limit], before->limits[limit]);
    }
    right = right && is_just_collected(search) && is_young_survivor(cell->fields[0]) &&
            is_young_survivor(registry->attributes) &&
            is_near_end(cell->fields[0], &class->old_peg[0]) &&
            is_near_end(registry->attributes, &class->old_peg[0]) && pw_r_is_oldest(registry);
    api->set_attribute(registry, name, api->nil);
    return right;
}

static bool try_twice(struct search *search) {
    const struct pw_r_api *api = search->api;
    struct pw_r_layout *layout = search->layout;
    struct collection before, after = {0};
    struct places places[VECTORS + 1] = {0};
    struct pw_r_node *cell = api->protect(api->cons(api->nil, api->nil));
    bool right = is_newest(search, cell) && collect_young(search, &before) &&
                 is_young_survivor(cell) && is_linked(cell) &&
                 try_barrier(search, cell, &before, &after, places);
    if (right) {
        layout->node_limit = told_place(&places[NODES], before.limits[NODES], after.limits[NODES]);
        layout->vector_limit =
            told_place(&places[VECTORS], before.limits[VECTORS], after.limits[VECTORS]);
    }
    api->unprotect(1);
    return right && layout->node_limit && layout->vector_limit;
}

// A collection that goes on to an older generation, or runs a finalizer, tells less: once more.
static const char *try_collections(struct search *search) {
    const struct pw_r_api *api = search->api;
    if (api->namespaces->attributes != api->nil) {
        return "the registry of namespaces has attributes";
    }
    for (int i = 0; i < TRIES && !pw_r_is_oldest(api->namespaces); i++) {
        api->collect(); // a process that has just begun
    }
    if (!pw_r_is_oldest(api->namespaces)) {
        return "nodes grow older otherwise";
    }
    for (int i = 0; i < TRIES; i++) {
        if (try_twice(search)) {
            return NULL;
        }
    }
    return "collections do otherwise with nodes, or R's own limits are not found";
}

// --- the most that vectors may take ---------------------------------------------------

#define WORDS_PER_MB 131072

// mem.maxVSize() or mem.maxNSize(): what holds from then on. 0 asks, and changes nothing.
static double set_limit(const struct pw_r_api *api, const char *function, double most_wanted) {
    int failed = 0;
    struct pw_r_node *value = api->protect(api->allocate_vector(PW_R_REAL, 1));
    api->reals(value)[0] = most_wanted;
    struct pw_r_node *call = api->protect(api->call2(api->symbol(function), value));
    struct pw_r_node *most = api->evaluate(call, api->base, &failed);
    api->unprotect(2);
    bool known = !failed && most && api->type_of(most) == PW_R_REAL && api->length(most) == 1;
    return known ? api->reals(most)[0] : 0;
}

static double set_most(const struct pw_r_api *api, double megabytes) {
    return set_limit(api, "mem.maxVSize", megabytes);
}

bool pw_r_layout_limits_nodes(const struct pw_r_api *api) {
    return !isinf(set_limit(api, "mem.maxNSize", 0));
}

static uint64_t words_of(double megabytes) {
    return isinf(megabytes) ? PW_R_NO_LIMIT : (uint64_t)(megabytes * WORDS_PER_MB);
}

// It is the word that follows two values, more than there is in any machine.
static const char *find_most(struct search *search) {
    static const double one = 1e9 + 7, other = 1e9 + 9;
    const struct pw_r_api *api = search->api;
    struct places places;
    size_t matches = 0;
    double before = set_most(api, 0);
    bool right = before > 0 && set_most(api, one) == one;
    find_words(search, words_of(one), &places);
    right = right && set_most(api, other) == other;
    for (size_t i = 0; i < places.count; i++) {
        if (*places.words[i] == words_of(other)) {
            search->layout->vector_most = places.words[i];
            matches++;
        }
    }
    right = right && matches == 1;
    if (right) { // R itself would not, and warn, where it counts on more by now
        *search->layout->vector_most = words_of(before);
        if (*search->layout->vector_limit > words_of(before)) {
            *search->layout->vector_limit = words_of(before);
        }
    } else {
        set_most(api, before);
    }
    return right && set_most(api, 0) == before ? NULL : "R's own limit of vectors is not found";
}

// --- all of it -----------------------------------------------------------------------------

static const char *take_steps(struct search *search, const char *(*const steps[])(struct search *),
                              size_t count) {
    const char *problem = NULL;
    for (size_t i = 0; i < count && !problem; i++) {
        problem = steps[i](search);
    }
    return problem;
}

const char *pw_r_layout_find(struct pw_r_layout *layout, const struct pw_r_api *api) {
    static const char *(*const steps[])(struct search *) = {
        try_version,     try_state,  find_classes,         try_sizes, try_kinds,
        try_collections, try_counts, find_weak_references, find_most,
    };
#ifndef __x86_64__
    return "another processor"; // R's growth of limits computes otherwise there
#endif
    *layout = (struct pw_r_layout){0};
    struct search search = {.layout = layout, .api = api, .inside = (uintptr_t)api->collect};
    if (!dl_iterate_phdr(look_at_module, &search) || !search.data.start) {
        return "R's own data are not found";
    }
    return take_steps(&search, steps, sizeof steps / sizeof *steps);
}

const char *pw_r_layout_check(struct pw_r_layout *layout, const struct pw_r_api *api) {
    static const char *(*const steps[])(struct search *) = {try_state, try_counts};
    struct search search = {.layout = layout, .api = api};
    return take_steps(&search, steps, sizeof steps / sizeof *steps);
}

bool pw_r_layout_is_collected(const struct pw_r_layout *layout) {
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        const struct pw_r_heap_class *class = &layout->classes[c];
        if (class->free != class->fresh_peg.next) {
            return false;
        }
    }
    return true;
}

size_t pw_r_layout_most_nodes(const struct pw_r_layout *layout) {
    size_t nodes = 0;
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        nodes += (size_t)layout->classes[c].node_count;
    }
    return nodes;
}
