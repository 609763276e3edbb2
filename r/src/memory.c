// SPDX-License-Identifier: MIT
//
// What vectors cost. Nothing here keeps a reference to a vector of the user's: R would copy it at
// the next change of an element.
#include "memory.h"

#include "share_map.h"
#include "share_string.h"
#include "share_vector.h"

#include <pagewise.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PAGE         4096u
#define DEEPEST_LIST 64

static const char *const cost_names[] = {"bytes",   "own",     "shared",  "swapped",
                                         "absent",  "huge",    "known",   "huge_known",
                                         "managed", "vectors", "compact", "published"};
enum cost_field {
    BYTES,
    OWN,
    SHARED,
    SWAPPED,
    ABSENT,
    HUGE_PAGES,
    KNOWN,
    HUGE_KNOWN,
    MANAGED,
    VECTORS,
    COMPACT,
    PUBLISHED, // of SHARED, in objects of share()
    COST_FIELDS
};

// --- walking an object -------------------------------------------------------------

struct leaf {
    const void *data; // NULL: a compact vector, which has none
    size_t size;
    const struct view *view; // of an object of share(), or NULL
    bool inside;             // no vector that anybody sees: R's pointers to shared strings
};

typedef void visit_leaf(void *context, const struct leaf *leaf);

static size_t element_size(SEXP x) {
    switch (TYPEOF(x)) {
    case LGLSXP:
    case INTSXP:
        return sizeof(int);
    case REALSXP:
        return sizeof(double);
    case CPLXSXP:
        return sizeof(Rcomplex);
    case RAWSXP:
        return 1;
    case STRSXP:
    case VECSXP:
    case EXPRSXP:
        return sizeof(SEXP);
    default:
        return 0;
    }
}

// Functions and environments with slots have no data there that counts, and may be in a circle.
static bool has_slots(SEXP x) {
    return TYPEOF(x) == S4SXP || (Rf_isS4(x) && element_size(x) > 0);
}

static void each_leaf(SEXP x, int depth, visit_leaf *visit, void *context);

struct slots {
    int depth;
    visit_leaf *visit;
    void *context;
};

static SEXP visit_slot(SEXP tag, SEXP value, void *context) {
    const struct slots *slots = context;
    if (tag != R_ClassSymbol) {
        each_leaf(value, slots->depth, slots->visit, slots->context);
    }
    return NULL;
}

// Slots are attributes. Those of other objects (names, levels) are not walked.
static void each_slot(SEXP x, int depth, visit_leaf *visit, void *context) {
    each_attribute(x, visit_slot, &(struct slots){depth, visit, context});
}

static void visit_inside(SEXP table, visit_leaf *visit, void *context) {
    if (table != R_NilValue) {
        struct leaf leaf = {DATAPTR_RO(table), (size_t)XLENGTH(table) * sizeof(SEXP), NULL, true};
        visit(context, &leaf);
    }
}

// Of character vectors the part that the object holds, codes and strings, and what R made of them.
static void visit_shared(SEXP x, visit_leaf *visit, void *context) {
    const struct view *view = share_view_of(x);
    struct leaf leaf = {view->data, (size_t)view->part.size, view, false};
    visit(context, &leaf);
    if (TYPEOF(x) == STRSXP) {
        visit_inside(share_string_made(x), visit, context);
        visit_inside(share_string_expanded(x), visit, context);
    }
}

static void visit_vector(SEXP x, size_t element, visit_leaf *visit, void *context) {
    struct leaf leaf = {NULL, (size_t)XLENGTH(x) * element, NULL, false};
    SEXP shared = share_inner(x);
    if (shared) {
        visit_shared(shared, visit, context);
        return;
    }
    if (!ALTREP(x)) {
        leaf.data = DATAPTR_RO(x);
    } else if (TYPEOF(x) != VECSXP) {
        leaf.data = DATAPTR_OR_NULL(x);
    }
    visit(context, &leaf);
}

// Vectors of an object: itself, and what lists and slots hold. Pointers of character vectors and
// lists count; the strings that they point to are R's, in one pool.
static void each_leaf(SEXP x, int depth, visit_leaf *visit, void *context) {
    size_t element = element_size(x);
    if (depth > DEEPEST_LIST) {
        return;
    }
    if (element > 0) {
        visit_vector(x, element, visit, context);
    }
    if (has_slots(x)) {
        each_slot(x, depth + 1, visit, context);
    }
    if (TYPEOF(x) == VECSXP || TYPEOF(x) == EXPRSXP) {
        for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
            each_leaf(PROTECT(VECTOR_ELT(x, i)), depth + 1, visit, context);
            UNPROTECT(1);
        }
    }
}

// --- costs ---------------------------------------------------------------------------

struct sum {
    double fields[COST_FIELDS];
    struct share_map seen; // large vectors, so that one that is listed twice counts once
    uint32_t seen_count;
};

static bool seen_before(struct sum *sum, const struct leaf *leaf) {
    if (leaf->size < PAGE) {
        return false;
    }
    uint32_t number = share_map_put(&sum->seen, leaf->data, sum->seen_count);
    if (number < sum->seen_count) {
        return true;
    }
    sum->seen_count++;
    return false;
}

// *published: of cost->shared, what lies in an object of share(), whether this process has touched
// it or not.
static bool cost_of_leaf(const struct leaf *leaf, struct pw_page_cost *cost, uint64_t *published) {
    *published = 0;
    return leaf->view ? pw_shared_cost(&leaf->view->part, leaf->data, cost, published)
                      : pw_page_cost(leaf->data, leaf->size, cost);
}

static void add_cost(void *context, const struct leaf *leaf) {
    struct sum *sum = context;
    struct pw_page_cost cost;
    struct pw_block_info block;
    uint64_t published;
    double *fields = sum->fields;
    if (leaf->data && seen_before(sum, leaf)) {
        return;
    }
    if (!leaf->inside) {
        fields[VECTORS]++;
        fields[BYTES] += (double)leaf->size;
    }
    if (!leaf->data) {
        fields[COMPACT] += (double)leaf->size;
        return;
    }
    if (leaf->size < PAGE) { // in a page with other small vectors
        fields[OWN] += (double)leaf->size;
        return;
    }
    bool managed = !leaf->inside && pw_block_describe(leaf->data, &block);
    fields[MANAGED] += managed ? (double)leaf->size : 0;
    if (!cost_of_leaf(leaf, &cost, &published)) {
        fields[KNOWN] = 0;
        return;
    }
    fields[PUBLISHED] += (double)published;
    fields[OWN] += (double)cost.own;
    fields[SHARED] += (double)cost.shared;
    fields[SWAPPED] += (double)cost.swapped;
    fields[ABSENT] += (double)cost.absent;
    fields[HUGE_PAGES] += (double)cost.huge;
    fields[HUGE_KNOWN] = fields[HUGE_KNOWN] && cost.huge_known;
}

static void write_cost(SEXP x, double *fields) {
    const void *before = vmaxget();
    struct sum sum = {.fields = {[KNOWN] = 1, [HUGE_KNOWN] = 1}};
    share_map_start(&sum.seen, 0);
    each_leaf(x, 0, add_cost, &sum);
    memcpy(fields, sum.fields, sizeof sum.fields);
    vmaxset(before);
}

double share_own_bytes(SEXP x) {
    double cost[COST_FIELDS];
    const void *before = vmaxget();
    struct sum sum = {.fields = {[KNOWN] = 1, [HUGE_KNOWN] = 1}};
    share_map_start(&sum.seen, 0);
    visit_shared(share_inner(x), add_cost, &sum);
    memcpy(cost, sum.fields, sizeof cost);
    vmaxset(before);
    return cost[KNOWN] == 1 ? cost[OWN] + cost[SHARED] - cost[PUBLISHED] + cost[SWAPPED] : NA_REAL;
}

static SEXP names_of_costs(void) {
    SEXP names = PROTECT(Rf_allocVector(STRSXP, COST_FIELDS));
    for (int i = 0; i < COST_FIELDS; i++) {
        SET_STRING_ELT(names, i, Rf_mkChar(cost_names[i]));
    }
    UNPROTECT(1);
    return names;
}

// Snapshots that the vectors of an object are on, and parts of objects of share(), as numbers that
// R compares. A double holds them: snapshots are numbered from 1 on, parts from here on.
#define FIRST_PART ((uint64_t)1 << 52)

static uint64_t number_of_part(const struct view *view) {
    uint64_t object;
    memcpy(&object, view->snapshot->shared.token, sizeof object); // random
    return FIRST_PART | ((object + view->index) & (FIRST_PART - 1));
}

// The context is a map, whose keys the numbers are.
static void add_snapshot(void *context, const struct leaf *leaf) {
    struct pw_block_info block;
    uint64_t number = 0;
    if (leaf->view) {
        number = number_of_part(leaf->view);
    } else if (leaf->data && pw_block_describe(leaf->data, &block)) {
        number = block.snapshot;
    }
    if (number) {
        share_map_put(context, (const void *)(uintptr_t)number, 0);
    }
}

static SEXP snapshots_of(SEXP x) {
    const void *before = vmaxget();
    struct share_map numbers;
    share_map_start(&numbers, 0);
    each_leaf(x, 0, add_snapshot, &numbers);
    SEXP found = Rf_allocVector(REALSXP, (R_xlen_t)numbers.used);
    for (size_t i = 0, at = 0; i < numbers.size; i++) {
        if (numbers.keys[i]) {
            REAL(found)[at++] = (double)(uintptr_t)numbers.keys[i];
        }
    }
    vmaxset(before);
    return found;
}

// list(cost, snapshots, address)
SEXP pagewise_cost(SEXP x) {
    struct pw_block_info block;
    char address[32] = "";
    SEXP result = PROTECT(Rf_allocVector(VECSXP, 3));
    SEXP cost = PROTECT(Rf_allocVector(REALSXP, COST_FIELDS));
    write_cost(x, REAL(cost));
    SEXP names = PROTECT(names_of_costs());
    Rf_setAttrib(cost, R_NamesSymbol, names);
    SET_VECTOR_ELT(result, 0, cost);
    SET_VECTOR_ELT(result, 1, snapshots_of(x));
    if (element_size(x) && !ALTREP(x) && pw_block_describe(DATAPTR_RO(x), &block)) {
        snprintf(address, sizeof address, "%p", block.address);
    }
    SET_VECTOR_ELT(result, 2, Rf_mkString(address));
    UNPROTECT(3);
    return result;
}

// --- variables ---------------------------------------------------------------------------

// The value of a variable, without running code: R_UnboundValue for promises and active bindings.
static SEXP bound_value(SEXP symbol, SEXP environment) {
#if R_VERSION >= R_Version(4, 6, 0)
    return R_GetBindingType(symbol, environment) == R_BindingTypeValue
               ? R_getVarEx(symbol, environment, FALSE, R_UnboundValue)
               : R_UnboundValue;
#else
    return R_BindingIsActive(symbol, environment) ? R_UnboundValue
                                                  : Rf_findVarInFrame(environment, symbol);
#endif
}

// NULL for what has no vectors.
static SEXP plain_value(SEXP symbol, SEXP environment) {
    SEXP value = bound_value(symbol, environment);
    bool counts = element_size(value) > 0 || has_slots(value);
    return value == R_UnboundValue || !counts ? NULL : value;
}

static void add_bytes(void *context, const struct leaf *leaf) {
    *(double *)context += leaf->data && !leaf->inside ? (double)leaf->size : 0;
}

// list(names, bytes, snapshots) of the variables that are vectors, lists or objects with slots.
SEXP pagewise_frame(SEXP environment) {
    SEXP names = PROTECT(R_lsInternal3(environment, TRUE, FALSE));
    R_xlen_t count = XLENGTH(names);
    SEXP sizes = PROTECT(Rf_allocVector(REALSXP, count));
    SEXP snapshots = PROTECT(Rf_allocVector(VECSXP, count));
    for (R_xlen_t i = 0; i < count; i++) {
        SEXP value = plain_value(Rf_installTrChar(STRING_ELT(names, i)), environment);
        double size = 0;
        if (value) {
            each_leaf(value, 0, add_bytes, &size);
            if (size >= PAGE) {
                SET_VECTOR_ELT(snapshots, i, snapshots_of(value));
            }
        }
        REAL(sizes)[i] = size;
    }
    SEXP result = PROTECT(Rf_allocVector(VECSXP, 3));
    SET_VECTOR_ELT(result, 0, names);
    SET_VECTOR_ELT(result, 1, sizes);
    SET_VECTOR_ELT(result, 2, snapshots);
    UNPROTECT(4);
    return result;
}

// Costs of named variables: a matrix with a row each.
SEXP pagewise_vectors(SEXP environment, SEXP names) {
    int count = Rf_length(names);
    SEXP costs = PROTECT(Rf_allocMatrix(REALSXP, COST_FIELDS, count));
    for (int i = 0; i < count; i++) {
        SEXP value = plain_value(Rf_installTrChar(STRING_ELT(names, i)), environment);
        double *fields = REAL(costs) + (size_t)i * COST_FIELDS;
        write_cost(value ? value : R_NilValue, fields);
    }
    SEXP labels = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(labels, 0, names_of_costs());
    SET_VECTOR_ELT(labels, 1, names);
    Rf_setAttrib(costs, R_DimNamesSymbol, labels);
    UNPROTECT(2);
    return costs;
}

// --- segments ----------------------------------------------------------------------------

// list(id, address, size, unit, hugetlb, locked, huge) of all blocks of ours.
SEXP pagewise_blocks(void) {
    size_t room = pw_block_list(NULL, 0) + 16;
    struct pw_block_info *blocks = (struct pw_block_info *)R_alloc(room, sizeof *blocks);
    size_t count = pw_block_list(blocks, room);
    count = count < room ? count : room;
    static const char *const names[] = {"id",      "address", "size", "unit",
                                        "hugetlb", "locked",  "huge"};
    SEXP result = PROTECT(Rf_allocVector(VECSXP, 7));
    SEXP labels = PROTECT(Rf_allocVector(STRSXP, 7));
    for (int i = 0; i < 7; i++) {
        SET_VECTOR_ELT(result, i, Rf_allocVector(i == 1 ? STRSXP : REALSXP, (R_xlen_t)count));
        SET_STRING_ELT(labels, i, Rf_mkChar(names[i]));
    }
    Rf_setAttrib(result, R_NamesSymbol, labels);
    for (size_t i = 0; i < count; i++) {
        const struct pw_block_info *block = &blocks[i];
        struct pw_page_cost cost = {0};
        char address[32];
        R_xlen_t at = (R_xlen_t)i;
        bool known = pw_page_cost(block->address, block->size, &cost) && cost.huge_known;
        snprintf(address, sizeof address, "%p", block->address);
        REAL(VECTOR_ELT(result, 0))[at] = (double)block->id;
        SET_STRING_ELT(VECTOR_ELT(result, 1), at, Rf_mkChar(address));
        REAL(VECTOR_ELT(result, 2))[at] = (double)block->size;
        REAL(VECTOR_ELT(result, 3))
        [at] = block->huge_shift ? (double)(1ull << block->huge_shift) : 0;
        REAL(VECTOR_ELT(result, 4))[at] = block->from_hugetlb;
        REAL(VECTOR_ELT(result, 5))[at] = block->locked;
        REAL(VECTOR_ELT(result, 6))[at] = known ? (double)cost.huge : NA_REAL;
    }
    UNPROTECT(2);
    return result;
}

static void collapse_leaf(void *context, const struct leaf *leaf) {
    if (leaf->data) {
        *(double *)context += (double)pw_collapse(leaf->data, leaf->size);
    }
}

SEXP pagewise_collapse(SEXP x) {
    double collapsed = 0;
    each_leaf(x, 0, collapse_leaf, &collapsed);
    return Rf_ScalarReal(collapsed);
}
