// SPDX-License-Identifier: MIT
#include "runtime/r/layout.h"

#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR        100000 // nodes made since a collection, at most: the way to a peg
#define FAR         20000000
#define TRIES       3
#define MOST_WORDS  64  // places of a value, before they are told apart
#define LOWEST      402 // versions whose sources were read, as 100 major + minor
#define HIGHEST     402
#define HEADER_SIZE sizeof(struct pw_r_vector)

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
    struct segment code = {0, 0}, data = {0, 0};
    (void)size;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X)) {
            code = segment_of(module, i);
        } else if (header->p_type == PT_LOAD && (header->p_flags & PF_W)) {
            data = segment_of(module, i);
        }
    }
    if (search->inside < code.start || search->inside >= code.end) {
        return 0;
    }
    search->layout->code_start = code.start;
    search->layout->code_end = code.end;
    search->data = data;
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
    int version = 100 * major + minor;
    return version < LOWEST || version > HIGHEST ? "an unknown version of R" : NULL;
}

#define NOT_AVAILABLE ((int)0x80000000) // NA: asks, and changes nothing

static const char *try_state(struct search *search) {
    struct pw_r_node *torture = pw_r_api_call(search->api, "gctorture", NOT_AVAILABLE);
    if (!torture || search->api->integers(torture)[0] != 0) {
        return "gctorture is on";
    }
    return NULL;
}

// --- the classes' lists ---------------------------------------------------------------

// The peg of a list that the node is in: it lies in R's data.
static struct pw_r_node *peg_of(const struct search *search, struct pw_r_node *node, long most) {
    struct pw_r_node *at = node->previous;
    while (at && at != node && !is_in_data(search, at, sizeof *at) && most-- > 0) {
        if (at->next->previous != at) {
            return NULL;
        }
        at = at->previous;
    }
    return at && is_in_data(search, at, sizeof *at) ? at : NULL;
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

static const char *find_classes(struct search *search) {
    const struct pw_r_api *api = search->api;
    api->collect();
    struct pw_r_node *cell = api->cons(api->nil, api->nil);
    struct pw_r_node *peg = peg_of(search, cell, NEAR);
    if (!peg || pw_r_class(cell) != 0) {
        return "no list of nodes found";
    }
    struct pw_r_heap_class *first =
        (struct pw_r_heap_class *)((char *)peg - offsetof(struct pw_r_heap_class, fresh_peg));
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

static bool is_member(const struct search *search, struct pw_r_node *node,
                      const struct pw_r_node *peg) {
    return peg_of(search, node, FAR) == peg;
}

// A vector of each class is where its size says; what is large is a class of its own.
static const char *try_sizes(struct search *search) {
    static const struct {
        ptrdiff_t length; // of reals
        unsigned class;
    } wanted[] = {{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {8, 4}, {9, 5}, {16, 5}, {17, 7}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct pw_r_node *vector = search->api->allocate_vector(PW_R_REAL, wanted[i].length);
        struct pw_r_heap_class *class = &search->layout->classes[wanted[i].class];
        if (pw_r_class(vector) != wanted[i].class || pw_r_type(vector) != PW_R_REAL ||
            pw_r_is_marked(vector) || pw_r_as_vector(vector)->length != wanted[i].length ||
            (char *)search->api->reals(vector) != (char *)vector + HEADER_SIZE ||
            !is_member(search, vector, &class->fresh_peg)) {
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
           api->mark_of(node) == pw_r_is_marked(node) &&
           (api->alternative(node) != 0) == pw_r_is_alternative(node) &&
           (type == PW_R_STRING || api->attributes(node) == node->attributes);
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
    return right ? NULL : "nodes look otherwise";
}

// A node that lives grows older, and is linked elsewhere when it is made to hold a younger one.
static const char *try_ages(struct search *search) {
    const struct pw_r_api *api = search->api;
    struct pw_r_heap_class *class = search->layout->classes;
    struct pw_r_node *cell = api->protect(api->cons(api->nil, api->nil));
    api->collect();
    bool right = pw_r_is_marked(cell) && api->mark_of(cell) == 1 && pw_r_generation(cell) == 0 &&
                 is_member(search, cell, &class->old_peg[0]);
    api->collect();
    right = right && pw_r_is_oldest(cell) && is_member(search, cell, &class->old_peg[1]);
    api->set_first(cell, api->cons(api->nil, api->nil));
    right = right && is_member(search, cell, &class->old_to_new_peg[1]);
    api->collect();
    right = right && pw_r_is_oldest(cell->fields[0]) && pw_r_layout_is_collected(search->layout);
    api->cons(api->nil, api->nil);
    right = right && !pw_r_layout_is_collected(search->layout);
    api->unprotect(1);
    return right ? NULL : "nodes grow older otherwise";
}

// --- pages and counts --------------------------------------------------------------------

static bool is_page_of(const struct pw_r_page *page, unsigned class, unsigned nodes) {
    const char *at = (const char *)(page + 1);
    for (unsigned i = 0; i < nodes; i++, at += pw_r_node_size(class)) {
        if (pw_r_class((const struct pw_r_node *)at) != class) {
            return false;
        }
    }
    return true;
}

static bool try_pages(struct search *search, unsigned number) {
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
        if (++pages > class->page_count || !is_page_of(page, number, each)) {
            return false;
        }
    }
    return pages == class->page_count;
}

static long list_length(const struct pw_r_node *peg, unsigned class, unsigned generation) {
    long length = 0;
    for (const struct pw_r_node *node = peg->next; node != peg; node = node->next, length++) {
        if (!pw_r_is_marked(node) || pw_r_class(node) != class ||
            pw_r_generation(node) != generation) {
            return -FAR;
        }
    }
    return length;
}

static const char *try_counts(struct search *search) {
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        struct pw_r_heap_class *class = &search->layout->classes[c];
        for (unsigned g = 0; g < PW_R_GENERATIONS; g++) {
            long length = list_length(&class->old_peg[g], c, g) +
                          list_length(&class->old_to_new_peg[g], c, g);
            if (length != class->old_count[g]) {
                return "the counts of nodes differ from their lists";
            }
        }
        if (c < PW_R_SMALL_CLASSES && !try_pages(search, c)) {
            return "the pages of nodes look otherwise";
        }
    }
    return NULL;
}

// --- variables that have no name ----------------------------------------------------------

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

enum limit { NODES = 4, VECTORS = 5 }; // where gc() has R's limits

static uint64_t limit_of(const struct search *search, enum limit limit) {
    const struct pw_r_api *api = search->api;
    int failed = 0;
    // .Internal(gc(FALSE, FALSE, FALSE)): a young collection, which changes no limit.
    struct pw_r_node *no = api->protect(api->logical(0));
    struct pw_r_node *rest = api->protect(api->cons(no, api->nil));
    rest = api->protect(api->cons(no, rest));
    rest = api->protect(api->cons(no, rest));
    struct pw_r_node *inner = api->protect(api->call1(api->symbol("gc")));
    inner->fields[1] = rest; // both are young
    struct pw_r_node *whole = api->protect(api->call2(api->symbol(".Internal"), inner));
    struct pw_r_node *result = api->evaluate(whole, api->base, &failed);
    api->unprotect(6);
    bool right = !failed && result && api->type_of(result) == PW_R_REAL && api->length(result) > 5;
    double value = right ? api->reals(result)[limit] : 0;
    return value > 0 && value < 0x1p52 ? (uint64_t)value : 0;
}

// The word that R reports after it was changed, and no other one.
static uint64_t *tell_apart(const struct search *search, enum limit limit,
                            const struct places *places, uint64_t value) {
    uint64_t *found = NULL;
    size_t matches = 0;
    for (size_t i = 0; i < places->count; i++) {
        uint64_t *word = places->words[i];
        if (*word != value) {
            continue; // the stack's, or a counter's
        }
        *word = value + 1;
        bool is_it = limit_of(search, limit) == value + 1;
        if (*word == value + 1) {
            *word = value;
        }
        found = is_it ? word : found;
        matches += is_it;
    }
    return matches == 1 && limit_of(search, limit) == value ? found : NULL;
}

static uint64_t *find_limit(const struct search *search, enum limit limit) {
    struct places places;
    for (int i = 0; i < TRIES; i++) {
        uint64_t value = limit_of(search, limit);
        find_words(search, value, &places);
        uint64_t *found = value ? tell_apart(search, limit, &places, value) : NULL;
        if (found) {
            return found;
        }
    }
    return NULL;
}

static const char *find_limits(struct search *search) {
    search->layout->node_limit = find_limit(search, NODES);
    search->layout->vector_limit = find_limit(search, VECTORS);
    return search->layout->node_limit && search->layout->vector_limit
               ? NULL
               : "R's own limits are not found";
}

// --- all of it -----------------------------------------------------------------------------

const char *pw_r_layout_find(struct pw_r_layout *layout, const struct pw_r_api *api) {
    static const char *(*const steps[])(struct search *) = {
        try_version, try_state,  find_classes,         try_sizes,   try_kinds,
        try_ages,    try_counts, find_weak_references, find_limits,
    };
#ifndef __x86_64__
    return "another processor"; // R's growth of limits computes otherwise there
#endif
    *layout = (struct pw_r_layout){0};
    struct search search = {.layout = layout, .api = api, .inside = (uintptr_t)api->collect};
    if (!dl_iterate_phdr(look_at_module, &search) || !search.data.start) {
        return "R's own data are not found";
    }
    const char *problem = NULL;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !problem; i++) {
        problem = steps[i](&search);
    }
    return problem;
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
