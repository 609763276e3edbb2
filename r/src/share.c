// SPDX-License-Identifier: MIT
//
// share(x): write the vectors of an object, attributes included, into one sealed memory file, and
// build the object again with views in their place. Lists and small vectors are R's own.
#include "share.h"

#include "memory.h"
#include "share_map.h"
#include "share_string.h"
#include "share_vector.h"
#include "share_view.h"

#include <stdio.h>
#include <string.h>

#define NOT_WRITTEN UINT32_MAX
#define PATH_SIZE   200

// --- what cannot be shared
// ------------------------------------------------------------------------

static bool is_list(SEXP x) {
    return TYPEOF(x) == VECSXP || TYPEOF(x) == EXPRSXP;
}

static const char *refusal(SEXP x) {
    switch (TYPEOF(x)) {
    case ENVSXP:
        return "an environment";
    case CLOSXP:
    case SPECIALSXP:
    case BUILTINSXP:
        return "a function";
    case PROMSXP:
        return "a promise";
    case EXTPTRSXP:
    case WEAKREFSXP:
        return "a pointer into this process";
    case BCODESXP:
        return "compiled code";
    default:
        return NULL;
    }
}

static void put_before(char *path, const char *step) {
    char longer[PATH_SIZE];
    snprintf(longer, sizeof longer, "%s%s", step, path);
    memcpy(path, longer, sizeof longer);
}

static void put_element_before(char *path, SEXP x, R_xlen_t i) {
    char step[PATH_SIZE];
    SEXP names = Rf_getAttrib(x, R_NamesSymbol);
    if (TYPEOF(names) == STRSXP && i < XLENGTH(names) && LENGTH(STRING_ELT(names, i)) > 0) {
        snprintf(step, sizeof step, "$%s", Rf_translateChar(STRING_ELT(names, i)));
    } else {
        snprintf(step, sizeof step, "[[%.0f]]", (double)i + 1);
    }
    put_before(path, step);
}

// What is in the way, and where; NULL: nothing. Attributes of other kinds than data (formulas,
// environments, data.table's pointer) travel as they always do.
static const char *find_refused(SEXP x, char *path) {
    R_CheckStack();
    const char *found = refusal(x);
    if (found || !is_list(x)) {
        return found;
    }
    for (R_xlen_t i = 0; i < XLENGTH(x) && !found; i++) {
        found = find_refused(PROTECT(VECTOR_ELT(x, i)), path);
        UNPROTECT(1);
        if (found) {
            put_element_before(path, x, i);
        }
    }
    return found;
}

// --- writing
// --------------------------------------------------------------------------------------

struct sharing {
    struct snapshot *snapshot;
    struct share_map numbers; // vector to part
    struct pw_shared_part *parts;
    uint32_t count, room;
    uint32_t left; // parts for which there was no mapping to be had
    SEXP made;     // list of part to view
    struct share_map list_numbers;
    SEXP lists; // protected: ordinary ones of ALTREP lists
    PROTECT_INDEX protection;
    uint32_t list_count;
};

static bool is_data(SEXP x) {
    return share_is_atomic((SEXPTYPE)TYPEOF(x)) || TYPEOF(x) == STRSXP;
}

static bool is_shared_already(SEXP x) {
    return share_view_of(x) && !share_is_changed(x);
}

static bool is_worth_sharing(SEXP x) {
    size_t element = TYPEOF(x) == STRSXP ? sizeof(SEXP) : share_element_size((SEXPTYPE)TYPEOF(x));
    return is_data(x) && (size_t)XLENGTH(x) * element >= SHARE_SMALLEST && !is_shared_already(x);
}

// Compact vectors (1:n) are written piece by piece, and stay compact here.
#define PIECE 65536

static enum pw_shared_result write_compact(struct pw_shared *shared, SEXP x) {
    const void *before = vmaxget();
    size_t element = share_element_size((SEXPTYPE)TYPEOF(x));
    void *piece = R_alloc(PIECE, (int)element);
    R_xlen_t at = 0, length = XLENGTH(x);
    enum pw_shared_result result = PW_SHARED_OK;
    while (at < length && result == PW_SHARED_OK) {
        R_xlen_t got = TYPEOF(x) == INTSXP ? INTEGER_GET_REGION(x, at, PIECE, piece)
                                           : REAL_GET_REGION(x, at, PIECE, piece);
        result = pw_shared_write(shared, piece, (size_t)got * element);
        at += got;
    }
    vmaxset(before);
    return result;
}

static enum pw_shared_result write_data(struct pw_shared *shared, SEXP x,
                                        struct pw_shared_part *part) {
    if (TYPEOF(x) == STRSXP) {
        return share_string_write(shared, x, part);
    }
    *part = (struct pw_shared_part){
        .offset = pw_shared_next_page(shared),
        .size = (uint64_t)XLENGTH(x) * share_element_size((SEXPTYPE)TYPEOF(x)),
        .length = (uint64_t)XLENGTH(x),
        .kind = (uint32_t)TYPEOF(x),
    };
    bool numbers = TYPEOF(x) == INTSXP || TYPEOF(x) == REALSXP;
    if (ALTREP(x) && numbers && !DATAPTR_OR_NULL(x)) {
        return write_compact(shared, x);
    }
    return pw_shared_write(shared, DATAPTR_RO(x), part->size);
}

static void add_part(struct sharing *sharing, const struct pw_shared_part *part) {
    if (sharing->count == sharing->room) {
        uint32_t room = sharing->room ? sharing->room * 2 : 64;
        struct pw_shared_part *parts = (void *)R_alloc(room, sizeof *parts);
        if (sharing->count > 0) {
            memcpy(parts, sharing->parts, sharing->count * sizeof *parts);
        }
        sharing->parts = parts;
        sharing->room = room;
    }
    sharing->parts[sharing->count++] = *part;
}

// Of all that is worth sharing, about: a vector that is there twice counts twice.
static uint64_t bytes_of(SEXP x) {
    uint64_t bytes = 0;
    R_CheckStack();
    if (is_data(x)) {
        size_t element = TYPEOF(x) == STRSXP ? 1 : share_element_size((SEXPTYPE)TYPEOF(x));
        bytes = (uint64_t)XLENGTH(x) * element;
    }
    for (R_xlen_t i = 0; is_list(x) && i < XLENGTH(x); i++) {
        bytes += bytes_of(PROTECT(VECTOR_ELT(x, i)));
        UNPROTECT(1);
    }
    return bytes;
}

static SEXP ordinary_list(SEXP x) {
    SEXP list = PROTECT(Rf_allocVector(VECSXP, XLENGTH(x)));
    for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
        SET_VECTOR_ELT(list, i, VECTOR_ELT(x, i));
    }
    SHALLOW_DUPLICATE_ATTRIB(list, x);
    UNPROTECT(1);
    return list;
}

// ALTREP lists (R 4.3 and later) may make their elements anew whenever they are asked. What is
// written and looked for by its address must stay, and so they are asked once.
static SEXP settled(struct sharing *sharing, SEXP x) {
    if (!ALTREP(x) || !is_list(x)) {
        return x;
    }
    uint32_t number = share_map_put(&sharing->list_numbers, x, sharing->list_count);
    if (number == sharing->list_count) {
        SEXP list = PROTECT(ordinary_list(x));
        R_xlen_t room = XLENGTH(sharing->lists);
        if (number == room) {
            sharing->lists = Rf_xlengthgets(sharing->lists, room * 2);
            REPROTECT(sharing->lists, sharing->protection);
        }
        SET_VECTOR_ELT(sharing->lists, sharing->list_count++, list);
        UNPROTECT(1);
    }
    return VECTOR_ELT(sharing->lists, number);
}

static void write_object(struct sharing *sharing, SEXP x);

static SEXP write_attribute(SEXP tag, SEXP value, void *context) {
    (void)tag;
    write_object(context, value);
    return NULL;
}

static void write_object(struct sharing *sharing, SEXP x) {
    R_CheckStack();
    x = settled(sharing, x);
    if (is_worth_sharing(x) &&
        share_map_put(&sharing->numbers, x, sharing->count) == sharing->count) {
        struct pw_shared_part part;
        R_CheckUserInterrupt();
        share_fail(write_data(&sharing->snapshot->shared, x, &part), NULL);
        add_part(sharing, &part);
    }
    for (R_xlen_t i = 0; is_list(x) && i < XLENGTH(x); i++) {
        write_object(sharing, VECTOR_ELT(x, i));
    }
    if (is_data(x) || is_list(x) || Rf_isS4(x)) {
        each_attribute(x, write_attribute, sharing);
    }
}

// --- building
// -------------------------------------------------------------------------------------

static SEXP build(struct sharing *sharing, SEXP x);

struct built {
    struct sharing *sharing;
    SEXP changed; // tags and values
    PROTECT_INDEX protection;
};

static SEXP build_attribute(SEXP tag, SEXP value, void *context) {
    struct built *built = context;
    SEXP made = PROTECT(build(built->sharing, value));
    if (made != value) {
        REPROTECT(built->changed = Rf_cons(made, built->changed), built->protection);
        SET_TAG(built->changed, tag);
    }
    UNPROTECT(1);
    return NULL;
}

// Those in which something is shared: none in most objects. Each is built once: to look at them
// first and build them after would take twice as long for every level that attributes are nested.
static SEXP changed_attributes(struct sharing *sharing, SEXP x) {
    struct built built = {sharing, R_NilValue, 0};
    PROTECT_WITH_INDEX(built.changed, &built.protection);
    each_attribute(x, build_attribute, &built);
    UNPROTECT(1);
    return built.changed;
}

// x has a list of attributes of its own by now.
static void replace_attributes(SEXP x, SEXP changed) {
    PROTECT(changed);
    for (SEXP at = changed; at != R_NilValue; at = CDR(at)) {
        replace_attribute(x, TAG(at), CAR(at));
    }
    UNPROTECT(1);
}

static SEXP build_vector(struct sharing *sharing, uint32_t number, SEXP x) {
    SEXP made = VECTOR_ELT(sharing->made, number);
    if (made != R_NilValue) {
        return made;
    }
    SEXP pointer = view_open(sharing->snapshot, number);
    if (!pointer) {
        sharing->left++;
        return x; // no room for a mapping: it stays as it is, and travels by value
    }
    PROTECT(pointer);
    made = PROTECT(TYPEOF(x) == STRSXP ? share_string(pointer) : share_vector(pointer));
    SET_VECTOR_ELT(sharing->made, number, made);
    SHALLOW_DUPLICATE_ATTRIB(made, x);
    replace_attributes(made, changed_attributes(sharing, x));
    UNPROTECT(2);
    return made;
}

// Of data that is not shared itself, whose attributes may be.
static SEXP build_small(struct sharing *sharing, SEXP x) {
    SEXP changed = PROTECT(changed_attributes(sharing, x));
    if (changed != R_NilValue) {
        x = PROTECT(Rf_shallow_duplicate(x));
        replace_attributes(x, changed);
        UNPROTECT(1);
    }
    UNPROTECT(1);
    return x;
}

static SEXP build_list(struct sharing *sharing, SEXP x) {
    SEXP copy = PROTECT(Rf_shallow_duplicate(x));
    for (R_xlen_t i = 0; is_list(x) && i < XLENGTH(x); i++) {
        SET_VECTOR_ELT(copy, i, build(sharing, VECTOR_ELT(x, i)));
    }
    replace_attributes(copy, changed_attributes(sharing, x));
    UNPROTECT(1);
    return copy;
}

// x itself, where nothing in it is shared.
static SEXP build(struct sharing *sharing, SEXP x) {
    x = settled(sharing, x);
    uint32_t number = share_map_get(&sharing->numbers, x, NOT_WRITTEN);
    if (number != NOT_WRITTEN) {
        return build_vector(sharing, number, x);
    }
    if (is_list(x) || TYPEOF(x) == S4SXP) {
        return build_list(sharing, x);
    }
    return is_data(x) ? build_small(sharing, x) : x;
}

SEXP pagewise_share(SEXP x) {
    char path[PATH_SIZE] = "";
    const char *refused = find_refused(x, path);
    if (refused) {
        Rf_error("%s%s is %s, which cannot be shared between processes: share() takes vectors, "
                 "matrices, factors, data frames and lists of these. Nothing was shared",
                 path[0] ? "x" : "`x`", path, refused);
    }
    struct sharing sharing = {.count = 0};
    PROTECT(snapshot_begin(&sharing.snapshot, bytes_of(x))); // given up here, unless views keep it
    share_map_start(&sharing.numbers, 0);
    share_map_start(&sharing.list_numbers, 0);
    sharing.lists = Rf_allocVector(VECSXP, 8);
    PROTECT_WITH_INDEX(sharing.lists, &sharing.protection);
    write_object(&sharing, x);
    if (sharing.count > 0) {
        struct pw_shared *shared = &sharing.snapshot->shared;
        share_fail(pw_shared_finish(shared, sharing.parts, sharing.count), NULL);
        sharing.made = PROTECT(Rf_allocVector(VECSXP, sharing.count));
        x = PROTECT(build(&sharing, x));
        if (sharing.left > 0) {
            Rf_warning(
                "%u of %u vectors were not shared and travel by value: this process has as many "
                "shared vectors as there may be mappings for. Fewer and longer vectors help "
                "(a matrix for many rows), or rm() of other shared objects and gc()",
                sharing.left, sharing.count);
        }
        UNPROTECT(2);
    }
    UNPROTECT(2);
    return x;
}

// --- what is shared
// -------------------------------------------------------------------------------

static SEXP hexadecimal(const uint8_t token[16]) {
    char text[33];
    for (int i = 0; i < 16; i++) {
        snprintf(text + i * 2, 3, "%02x", token[i]);
    }
    return Rf_mkString(text);
}

// list(bytes, bytes of this process's own, changed, object, maker) of a shared vector, or NULL.
SEXP pagewise_shared_leaf(SEXP x) {
    const struct view *view = share_view_of(x);
    if (!view) {
        return R_NilValue;
    }
    SEXP result = PROTECT(Rf_allocVector(VECSXP, 5));
    SET_VECTOR_ELT(result, 0, Rf_ScalarReal((double)view->part.size));
    SET_VECTOR_ELT(result, 1, Rf_ScalarReal(share_own_bytes(x)));
    SET_VECTOR_ELT(result, 2, Rf_ScalarLogical(share_is_changed(x)));
    SET_VECTOR_ELT(result, 3, hexadecimal(view->snapshot->shared.token));
    SET_VECTOR_ELT(result, 4, Rf_ScalarInteger((int)view->snapshot->shared.maker_pid));
    UNPROTECT(1);
    return result;
}

// The handle of a shared vector of numbers; NULL: only this process, a forked child, has it.
SEXP pagewise_shared_handle(SEXP x) {
    const struct view *view = share_view_of(x);
    SEXP handle = view ? view_handle(view) : NULL;
    return handle ? handle : R_NilValue;
}

SEXP pagewise_shared_open(SEXP handle) {
    return share_vector_named(handle);
}

// The processes that have the object of a shared vector.
SEXP pagewise_shared_holders(SEXP x) {
    uint32_t pids[1024];
    const struct view *view = share_view_of(x);
    size_t count = view ? pw_shared_holders(&view->snapshot->shared, pids, 1024) : 0;
    count = count < 1024 ? count : 1024;
    SEXP result = Rf_allocVector(INTSXP, (R_xlen_t)count);
    for (size_t i = 0; i < count; i++) {
        INTEGER(result)[i] = (int)pids[i];
    }
    return result;
}

// --- the start -----------------------------------------------------------------------------------

void share_start(void) {
    share_view_start();
    share_vector_start();
    share_string_start();
}
