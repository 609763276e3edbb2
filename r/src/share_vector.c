// SPDX-License-Identifier: MIT
//
// Shared vectors of numbers: ALTREP classes whose data are a view. R reads and writes through the
// data pointer as it does with any vector; the kernel gives this process a page of its own when it
// writes one. R's own copies (duplicate) become further views instead of memcpy.
// docs/design/processes.md says why ALTREP, and what it costs.
#include "share_vector.h"

#include "share_send.h"
#include "share_string.h"

#include <string.h>

// X(R type, name of the class, ALTREP family, element type)
#define FAMILIES(X)                                                                                \
    X(LGLSXP, logical, altlogical, int)                                                            \
    X(INTSXP, integer, altinteger, int)                                                            \
    X(REALSXP, real, altreal, double)                                                              \
    X(CPLXSXP, complex, altcomplex, Rcomplex)                                                      \
    X(RAWSXP, raw, altraw, Rbyte)

// The numbers by which other runtimes know these types.
_Static_assert(LGLSXP == PW_SHARED_LOGICAL && INTSXP == PW_SHARED_INTEGER &&
                   REALSXP == PW_SHARED_REAL && CPLXSXP == PW_SHARED_COMPLEX &&
                   RAWSXP == PW_SHARED_RAW && sizeof(int) == 4,
               "kinds");

#define DECLARE_CLASS(type, name, family, element) static R_altrep_class_t name##_class;
FAMILIES(DECLARE_CLASS)

bool share_is_atomic(SEXPTYPE type) {
    return share_element_size(type) > 0;
}

size_t share_element_size(SEXPTYPE type) {
    switch (type) {
#define SIZE(type, name, family, element)                                                          \
    case type:                                                                                     \
        return sizeof(element);
        FAMILIES(SIZE)
#undef SIZE
    default:
        return 0;
    }
}

static struct view *view_in(SEXP x) {
    return view_at(R_altrep_data1(x));
}

static const R_altrep_class_t *class_of_type(SEXPTYPE type) {
    switch (type) {
#define CLASS(type, name, family, element)                                                         \
    case type:                                                                                     \
        return &name##_class;
        FAMILIES(CLASS)
#undef CLASS
    default:
        return NULL;
    }
}

static bool is_ours(SEXP x) {
    const R_altrep_class_t *class = class_of_type((SEXPTYPE)TYPEOF(x));
    return ALTREP(x) && ((class && R_altrep_inherits(x, *class)) || share_string_owns(x));
}

// R's wrappers read as what they are around. Another package's class may show a part of it.
static bool is_wrapper(SEXP x) {
    static const char start[] = "wrap_";
    SEXP name = altrep_class_name(x), package = altrep_class_package(x);
    return TYPEOF(name) == SYMSXP && package == Rf_install("base") &&
           !strncmp(CHAR(PRINTNAME(name)), start, sizeof start - 1);
}

SEXP share_inner(SEXP x) {
    if (is_ours(x)) {
        return x;
    }
    bool data = TYPEOF(x) == STRSXP || share_is_atomic((SEXPTYPE)TYPEOF(x));
    if (!ALTREP(x) || !data || !is_wrapper(x)) {
        return NULL;
    }
    SEXP wrapped = R_altrep_data1(x);
    return TYPEOF(wrapped) == TYPEOF(x) && is_ours(wrapped) ? wrapped : NULL;
}

const struct view *share_view_of(SEXP x) {
    SEXP inner = share_inner(x);
    return inner ? view_in(inner) : NULL;
}

bool share_is_changed(SEXP x) {
    x = share_inner(x);
    if (TYPEOF(x) == STRSXP) {
        return share_string_is_changed(x);
    }
    const struct view *view = view_in(x);
    return pw_shared_changed(&view->snapshot->shared, &view->part, view->data);
}

SEXP share_vector(SEXP pointer) {
    SEXPTYPE type = view_at(pointer)->part.kind;
    return share_new(*class_of_type(type), type, pointer, R_NilValue);
}

// --- methods
// -------------------------------------------------------------------------------------- R turns
// its collector off while most of them run: none of these may raise an error.

static R_xlen_t method_length(SEXP x) {
    return (R_xlen_t)view_in(x)->part.length;
}

static void *method_dataptr(SEXP x, Rboolean writable) {
    (void)writable; // a private view: writes stay in this process
    return view_in(x)->data;
}

static const void *method_dataptr_or_null(SEXP x) {
    return view_in(x)->data;
}

// NULL: R makes an ordinary vector.
static SEXP method_duplicate(SEXP x, Rboolean deep) {
    (void)deep;
    const struct view *view = view_in(x);
    if (view->part.size < SHARE_SMALLEST_REMAP) {
        return NULL;
    }
    SEXP pointer = view_again(view);
    if (!pointer) {
        return NULL;
    }
    PROTECT(pointer);
    SEXP copy = share_vector(pointer);
    UNPROTECT(1);
    return copy;
}

static SEXP method_serialized_state(SEXP x) {
    bool by_handle = share_may_send_handle() && !share_is_changed(x);
    return by_handle ? share_handle(*class_of_type((SEXPTYPE)TYPEOF(x)), view_in(x)) : NULL;
}

static SEXP copy_of(const struct snapshot *snapshot, const struct pw_shared_part *part) {
    SEXP x = PROTECT(Rf_allocVector(part->kind, (R_xlen_t)part->length));
    if (!pw_shared_read(&snapshot->shared, part, data_of_new(x))) {
        share_fail(PW_SHARED_LIMIT, NULL);
    }
    UNPROTECT(1);
    return x;
}

// `type`: the one that is wanted, or NILSXP.
static SEXP unserialize(SEXP handle, SEXPTYPE type) {
    struct snapshot *snapshot;
    struct pw_shared_part part;
    bool mapped;
    SEXP pointer = PROTECT(view_of_handle(handle, type == NILSXP ? SHARE_ALL : SHARE_OWN_AND_PYTHON,
                                          &snapshot, &part, &mapped));
    size_t element = share_element_size(part.kind);
    if ((type != NILSXP && part.kind != type) || element == 0 || part.size % element != 0 ||
        part.length != part.size / element) {
        share_fail(PW_SHARED_FORGED, NULL);
    }
    SEXP x = mapped ? share_vector(pointer) : copy_of(snapshot, &part);
    UNPROTECT(1);
    return x;
}

SEXP share_vector_named(SEXP handle) {
    return unserialize(handle, NILSXP);
}

static SEXP method_unserialize(SEXP class, SEXP handle) {
#define UNSERIALIZE(type, name, family, element)                                                   \
    if (class == R_SEXP(name##_class)) {                                                           \
        return unserialize(handle, type);                                                          \
    }
    FAMILIES(UNSERIALIZE)
#undef UNSERIALIZE
    share_fail(PW_SHARED_FORGED, NULL);
    return R_NilValue; // not reached
}

static Rboolean method_inspect(SEXP x, int before, int deep, int vector,
                               void (*inspect)(SEXP, int, int, int)) {
    (void)before, (void)deep, (void)vector, (void)inspect;
    const struct view *view = view_in(x);
    Rprintf(" pagewise shared: %.0f bytes at %p, part %u of an object made by process %u\n",
            (double)view->part.size, (void *)view->data, view->index,
            view->snapshot->shared.maker_pid);
    return TRUE;
}

#define ELEMENT(type, name, family, element)                                                       \
    static element name##_element(SEXP x, R_xlen_t i) {                                            \
        return ((const element *)(const void *)view_in(x)->data)[i];                               \
    }
FAMILIES(ELEMENT)

// --- x[indices]
// ----------------------------------------------------------------------------------- R would ask
// for one element after the other, through the class, which takes two to three times as long.
// Indices are R's: from 1, and what is not in the vector is NA.

static int logical_missing(void) {
    return NA_LOGICAL;
}
static int integer_missing(void) {
    return NA_INTEGER;
}
static double real_missing(void) {
    return NA_REAL;
}
static Rcomplex complex_missing(void) {
    return (Rcomplex){.r = NA_REAL, .i = NA_REAL};
}
static Rbyte raw_missing(void) {
    return 0;
}

#define SUBSET(type, name, family, element)                                                        \
    static SEXP name##_subset(SEXP x, SEXP indices, SEXP call) {                                   \
        (void)call;                                                                                \
        if (TYPEOF(indices) != INTSXP && TYPEOF(indices) != REALSXP) {                             \
            return NULL;                                                                           \
        }                                                                                          \
        R_xlen_t count = XLENGTH(indices), length = method_length(x);                              \
        SEXP result = PROTECT(Rf_allocVector(type, count));                                        \
        const element *from = (const element *)(const void *)view_in(x)->data;                     \
        element *to = data_of_new(result);                                                         \
        if (TYPEOF(indices) == INTSXP) {                                                           \
            const int *at = INTEGER_RO(indices);                                                   \
            for (R_xlen_t i = 0; i < count; i++) {                                                 \
                bool inside = at[i] > 0 && at[i] <= length;                                        \
                to[i] = inside ? from[at[i] - 1] : name##_missing();                               \
            }                                                                                      \
        } else {                                                                                   \
            const double *at = REAL_RO(indices);                                                   \
            for (R_xlen_t i = 0; i < count; i++) {                                                 \
                bool inside = at[i] >= 1 && at[i] < (double)length + 1;                            \
                to[i] = inside ? from[(R_xlen_t)at[i] - 1] : name##_missing();                     \
            }                                                                                      \
        }                                                                                          \
        UNPROTECT(1);                                                                              \
        return result;                                                                             \
    }
FAMILIES(SUBSET)

void share_vector_start(void) {
    if (R_SEXP(real_class)) {
        return;
    }
#define START(type, name, family, element)                                                         \
    name##_class = R_make_##family##_class("shared_" #name, "pagewise", NULL);                     \
    share_hide_type(name##_class, type);                                                           \
    R_set_altrep_Length_method(name##_class, method_length);                                       \
    R_set_altrep_Duplicate_method(name##_class, method_duplicate);                                 \
    R_set_altrep_Serialized_state_method(name##_class, method_serialized_state);                   \
    R_set_altrep_Unserialize_method(name##_class, method_unserialize);                             \
    R_set_altrep_Inspect_method(name##_class, method_inspect);                                     \
    R_set_altvec_Dataptr_method(name##_class, method_dataptr);                                     \
    R_set_altvec_Dataptr_or_null_method(name##_class, method_dataptr_or_null);                     \
    R_set_altvec_Extract_subset_method(name##_class, name##_subset);                               \
    R_set_##family##_Elt_method(name##_class, name##_element);
    FAMILIES(START)
#undef START
}
