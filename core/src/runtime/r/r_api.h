// SPDX-License-Identifier: MIT
//
// R's own functions, found where R is loaded. They are called only where R code may run.
#ifndef PW_RUNTIME_R_R_API_H
#define PW_RUNTIME_R_R_API_H

#include "runtime/r/node.h"

// X(result, name, R's symbol, arguments)
#define PW_R_FUNCTIONS(X)                                                                          \
    X(struct pw_r_node *, allocate_vector, "Rf_allocVector", (unsigned type, ptrdiff_t length))    \
    X(struct pw_r_node *, cons, "Rf_cons", (struct pw_r_node * first, struct pw_r_node * rest))    \
    X(struct pw_r_node *, set_first, "SETCAR",                                                     \
      (struct pw_r_node * cell, struct pw_r_node * value))                                         \
    X(struct pw_r_node *, protect, "Rf_protect", (struct pw_r_node * value))                       \
    X(void, unprotect, "Rf_unprotect", (int count))                                                \
    X(void, preserve, "R_PreserveObject", (struct pw_r_node * value))                              \
    X(void, collect, "R_gc", (void))                                                               \
    X(struct pw_r_node *, run, "R_ExecWithCleanup",                                                \
      (struct pw_r_node * (*body)(void *), void *context, void (*cleanup)(void *), void *its))     \
    X(struct pw_r_node *, symbol, "Rf_install", (const char *name))                                \
    X(struct pw_r_node *, evaluate, "R_tryEvalSilent",                                             \
      (struct pw_r_node * call, struct pw_r_node * environment, int *failed))                      \
    X(struct pw_r_node *, call1, "Rf_lang1", (struct pw_r_node * function))                        \
    X(struct pw_r_node *, call2, "Rf_lang2",                                                       \
      (struct pw_r_node * function, struct pw_r_node * argument))                                  \
    X(struct pw_r_node *, logical, "Rf_ScalarLogical", (int value))                                \
    X(struct pw_r_node *, weak_reference, "R_MakeWeakRef",                                         \
      (struct pw_r_node * key, struct pw_r_node * value, struct pw_r_node * finalizer,             \
       int onexit))                                                                                \
    X(struct pw_r_node *, new_node, "Rf_allocSExp", (unsigned type))                               \
    X(int, type_of, "TYPEOF", (struct pw_r_node * node))                                           \
    X(int, alternative, "ALTREP", (struct pw_r_node * node))                                       \
    X(int, references, "REFCNT", (struct pw_r_node * node))                                        \
    X(struct pw_r_node *, attributes, "ATTRIB", (struct pw_r_node * node))                         \
    X(struct pw_r_node *, set_attribute, "Rf_setAttrib",                                           \
      (struct pw_r_node * node, struct pw_r_node * name, struct pw_r_node * value))                \
    X(struct pw_r_node *, tag, "TAG", (struct pw_r_node * node))                                   \
    X(struct pw_r_node *, frame, "FRAME", (struct pw_r_node * node))                               \
    X(struct pw_r_node *, enclosure, "ENCLOS", (struct pw_r_node * node))                          \
    X(struct pw_r_node *, table, "HASHTAB", (struct pw_r_node * node))                             \
    X(struct pw_r_node *, formals, "FORMALS", (struct pw_r_node * node))                           \
    X(struct pw_r_node *, closure_environment, "CLOENV", (struct pw_r_node * node))                \
    X(struct pw_r_node *, symbol_name, "PRINTNAME", (struct pw_r_node * node))                     \
    X(struct pw_r_node *, symbol_value, "SYMVALUE", (struct pw_r_node * node))                     \
    X(ptrdiff_t, length, "Rf_xlength", (struct pw_r_node * node))                                  \
    X(const char *, text, "R_CHAR", (struct pw_r_node * node))                                     \
    X(struct pw_r_node *, string_element, "STRING_ELT",                                            \
      (struct pw_r_node * node, ptrdiff_t place))                                                  \
    X(double *, reals, "REAL", (struct pw_r_node * node))                                          \
    X(int *, integers, "INTEGER", (struct pw_r_node * node))

// R 4.5 and later keep these to themselves.
#define PW_R_FUNCTIONS_OF_SOME(X)                                                                  \
    X(int, is_collecting, "R_gc_running", (void))                                                  \
    X(int, mark_of, "MARK", (struct pw_r_node * node))

// X(name, R's symbol)
#define PW_R_VALUES(X)                                                                             \
    X(nil, "R_NilValue")                                                                           \
    X(base, "R_BaseEnv")                                                                           \
    X(base_namespace, "R_BaseNamespace")                                                           \
    X(global, "R_GlobalEnv")                                                                       \
    X(empty, "R_EmptyEnv")                                                                         \
    X(namespaces, "R_NamespaceRegistry")

struct pw_r_api {
#define PW_R_DECLARE_FUNCTION(result, name, symbol, arguments) result(*name) arguments;
    PW_R_FUNCTIONS(PW_R_DECLARE_FUNCTION)
    PW_R_FUNCTIONS_OF_SOME(PW_R_DECLARE_FUNCTION) // mark_of may be NULL
#undef PW_R_DECLARE_FUNCTION
#define PW_R_DECLARE_VALUE(name, symbol) struct pw_r_node *name;
    PW_R_VALUES(PW_R_DECLARE_VALUE)
#undef PW_R_DECLARE_VALUE
    void *builtins; // R_FunTab
    int *suspended; // R_interrupts_suspended: an interrupt stays pending, and so does a time limit
};

// False: this R does not have all of them. Where R does not tell whether it is collecting,
// `is_collecting` is true as well while other code of R's holds back interrupts.
bool pw_r_api_find(struct pw_r_api *api);

#define PW_R_NOT_AVAILABLE ((int)0x80000000) // NA

// What base's function returns for a logical argument. NULL: it failed.
struct pw_r_node *pw_r_api_call(const struct pw_r_api *api, const char *function, int argument);

// .Internal(gc(FALSE, FALSE, FALSE)): a young collection. What it returns, or NULL: it failed.
struct pw_r_node *pw_r_collect_young(const struct pw_r_api *api);

#endif
