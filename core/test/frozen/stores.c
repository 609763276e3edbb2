// SPDX-License-Identifier: MIT
//
// A module for R that stores into objects in place, as R's own C code and packages do, and that
// keeps objects alive by R_PreserveObject. R's headers are not needed to build it.
#include <signal.h>
#include <string.h>
#include <time.h>

typedef struct value *value; // SEXP

extern value R_NilValue;
extern value Rf_cons(value first, value rest), SETCAR(value cell, value to),
    SETCDR(value cell, value to), SET_VECTOR_ELT(value list, long at, value to),
    VECTOR_ELT(value list, long at), STRING_ELT(value strings, long at), ATTRIB(value of),
    CAR(value cell), CDR(value cell), TAG(value cell), CLOENV(value closure), BODY(value closure),
    FORMALS(value closure), PRVALUE(value promise), PRENV(value promise),
    Rf_allocSExp(unsigned type), Rf_allocVector(unsigned type, long length), Rf_protect(value of),
    R_ExternalPtrTag(value pointer), R_MakeExternalPtr(void *address, value tag, value protects),
    R_WeakRefKey(value reference),
    R_MakeWeakRef(value key, value held, value finalizer, int on_exit), Rf_mkChar(const char *text),
    R_WeakRefValue(value reference), Rf_ScalarLogical(int yes), ENCLOS(value environment),
    Rf_mkString(const char *text);
extern void SET_TAG(value cell, value to), SET_ATTRIB(value of, value to),
    SET_PRVALUE(value promise, value to), SET_PRENV(value promise, value to),
    SET_ENCLOS(value environment, value to), SET_STRING_ELT(value strings, long at, value to),
    Rf_unprotect(int count), R_PreserveObject(value of), R_ReleaseObject(value of);
extern void R_gc(void), R_CheckUserInterrupt(void);
extern const char *R_CHAR(value string);
extern int *INTEGER(value of);

// R 4.6 and later keep these to themselves: there they are NULL.
extern void SET_CLOENV(value closure, value to) __attribute__((weak)),
    SET_BODY(value closure, value to) __attribute__((weak)),
    SET_FORMALS(value closure, value to) __attribute__((weak));

// Ours, which is preloaded.
extern void pw_freeze_now(const int *watch, const int *for_forks, char **problem);

static const char *last_problem = "not tried";

#define PAIRLIST 2
#define INTEGERS 13
#define PROMISE  5
#define STRINGS  16
#define LIST     19

static int is(value name, const char *text) {
    return strcmp(R_CHAR(STRING_ELT(name, 0)), text) == 0;
}

// A list of one object of each kind, whose children are nothing.
value make_holders(void) {
    value holders = Rf_protect(Rf_allocVector(LIST, 4));
    SET_VECTOR_ELT(holders, 0, Rf_cons(R_NilValue, R_NilValue));
    SET_VECTOR_ELT(holders, 1, Rf_allocVector(LIST, 2));
    SET_VECTOR_ELT(holders, 2, Rf_allocSExp(PROMISE));
    SET_VECTOR_ELT(holders, 3, Rf_allocVector(STRINGS, 2));
    Rf_unprotect(1);
    return holders;
}

static value filled(int with) {
    value vector = Rf_allocVector(INTEGERS, 100);
    for (int i = 0; i < 100; i++) {
        INTEGER(vector)[i] = with;
    }
    return vector;
}

// Of a vector that is not protected while nothing is allocated, in plain R.
value sum_of_unprotected(void) {
    for (int i = 0; i < 25; i++) {
        R_gc();
    }
    value vector = filled(1);
    for (int i = 0; i < 20; i++) {
        R_CheckUserInterrupt();
    }
    filled(-1);
    int sum = 0;
    for (int i = 0; i < 100; i++) {
        sum += INTEGER(vector)[i];
    }
    return Rf_ScalarLogical(sum == 100);
}

// A closure's parts can be replaced in place.
value changes_closures(void) {
    return Rf_ScalarLogical(SET_CLOENV && SET_BODY && SET_FORMALS);
}

value store(value kind, value holder, value to) {
    if (is(kind, "car")) {
        SETCAR(holder, to);
    } else if (is(kind, "cdr")) {
        SETCDR(holder, to);
    } else if (is(kind, "tag")) {
        SET_TAG(holder, to);
    } else if (is(kind, "element")) {
        SET_VECTOR_ELT(holder, 0, to);
    } else if (is(kind, "attributes")) {
        SET_ATTRIB(holder, to);
    } else if (is(kind, "formals")) {
        SET_FORMALS(holder, to);
    } else if (is(kind, "body")) {
        SET_BODY(holder, to);
    } else if (is(kind, "closure-environment")) {
        SET_CLOENV(holder, to);
    } else if (is(kind, "enclosure")) {
        SET_ENCLOS(holder, to);
    } else if (is(kind, "promise-value")) {
        SET_PRVALUE(holder, to);
    } else if (is(kind, "promise-environment")) {
        SET_PRENV(holder, to);
    } else if (is(kind, "string")) {
        SET_STRING_ELT(holder, 0, STRING_ELT(to, 0));
    }
    return R_NilValue;
}

value stored(value kind, value holder) {
    if (is(kind, "string")) {
        value strings = Rf_protect(Rf_allocVector(STRINGS, 1));
        SET_STRING_ELT(strings, 0, STRING_ELT(holder, 0));
        Rf_unprotect(1);
        return strings;
    }
    return is(kind, "car")                   ? CAR(holder)
           : is(kind, "cdr")                 ? CDR(holder)
           : is(kind, "tag")                 ? TAG(holder)
           : is(kind, "element")             ? VECTOR_ELT(holder, 0)
           : is(kind, "attributes")          ? ATTRIB(holder)
           : is(kind, "formals")             ? FORMALS(holder)
           : is(kind, "body")                ? BODY(holder)
           : is(kind, "closure-environment") ? CLOENV(holder)
           : is(kind, "enclosure")           ? ENCLOS(holder)
           : is(kind, "promise-value")       ? PRVALUE(holder)
                                             : PRENV(holder);
}

// An old object is stored between a freeze and the next collection, with nothing allocated in
// between. Returns why nothing was frozen.
value store_right_after_freeze(value list, value watch) {
    int for_forks = 0;
    char *problem = "";
    value old = Rf_protect(Rf_allocVector(STRINGS, 1));
    SET_STRING_ELT(old, 0, Rf_mkChar("old, and not frozen"));
    for (int i = 0; i < 3; i++) {
        R_gc();
    }
    pw_freeze_now(INTEGER(watch), &for_forks, &problem);
    SET_VECTOR_ELT(list, 0, old);
    Rf_unprotect(1);
    R_gc();
    return Rf_mkString(problem);
}

// An interrupt is pending when the freeze begins. Returns why nothing was frozen.
value freeze_interrupted(value watch, value for_forks) {
    char *problem = "";
    raise(SIGINT);
    pw_freeze_now(INTEGER(watch), INTEGER(for_forks), &problem);
    last_problem = problem;
    return R_NilValue;
}

// SIGUSR1 is raised by a finalizer, which runs in a freeze. Its handler must find R as outside of
// one.
extern int R_interrupts_suspended;
static int signals_taken, signals_refused;

static void take_signal(int number) {
    (void)number;
    signals_taken += !R_interrupts_suspended;
    signals_refused += R_interrupts_suspended != 0;
}

value raise_signal(value number) {
    raise(*INTEGER(number));
    return Rf_ScalarLogical(signals_taken + signals_refused > 0); // at once?
}

value await_signal(value number) {
    signals_taken = signals_refused = 0;
    signal(*INTEGER(number), take_signal);
    return R_NilValue;
}

// While what is called next goes on: 3 ms.
value signal_soon(value number) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = *INTEGER(number)};
    struct itimerspec soon = {.it_value = {.tv_nsec = 3000000}};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, NULL);
    return R_NilValue;
}

value took_signal(void) {
    return Rf_ScalarLogical(signals_taken == 1 && signals_refused == 0);
}

value why_not_frozen(void) {
    return Rf_mkString(last_problem);
}

value preserve(value of) {
    R_PreserveObject(of);
    return R_NilValue;
}

value release(value of) {
    R_ReleaseObject(of);
    return R_NilValue;
}

// A bit of the header that R keeps about an object.
value flip(value of, value bit) {
    *(unsigned long *)of ^= 1ul << *INTEGER(bit);
    return R_NilValue;
}

value weak_reference(value key, value held) {
    return R_MakeWeakRef(key, held, R_NilValue, 0);
}

value is_cleared(value reference) {
    return Rf_ScalarLogical(R_WeakRefKey(reference) == R_NilValue &&
                            R_WeakRefValue(reference) == R_NilValue);
}

value external_pointer(value tag) {
    return R_MakeExternalPtr(&R_NilValue, tag, R_NilValue);
}
