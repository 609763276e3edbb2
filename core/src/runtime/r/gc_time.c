// SPDX-License-Identifier: MIT
//
// With gc.time(TRUE) R's collector calls getrusage at its start and its end, which is exact. R's
// own hook for event handlers (R_PolledEvents, R_ext/eventloop.h) is used once, at a moment when R
// code may run, to switch that on.
#include "process/state.h"
#include "runtime/r/ask.h"
#include "runtime/r/frozen.h"
#include "runtime/r/r.h"

#include <dlfcn.h>
#include <pthread.h>

typedef void *r_value; // SEXP

static struct pw_process *announced_to;
static void (**polled_events)(void);
static void (*earlier_handler)(void);
static bool is_handler;    // ours is among R's handlers, maybe behind a later one
static r_value cell;       // holds an object whose finalizer freezes
static bool armed;         // it is there
static pthread_t armed_by; // R's thread

static void *symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

// gc.time(TRUE), as R code would call it.
static void enable_gc_time(struct pw_process *process) {
    r_value (*install)(const char *) = (r_value(*)(const char *))symbol("Rf_install");
    r_value (*logical)(int) = (r_value(*)(int))symbol("Rf_ScalarLogical");
    r_value (*call2)(r_value, r_value) = (r_value(*)(r_value, r_value))symbol("Rf_lang2");
    r_value (*evaluate)(r_value, r_value, int *) =
        (r_value(*)(r_value, r_value, int *))symbol("R_tryEvalSilent");
    r_value (*protect)(r_value) = (r_value(*)(r_value))symbol("Rf_protect");
    void (*unprotect)(int) = (void (*)(int))symbol("Rf_unprotect");
    r_value *base = (r_value *)symbol("R_BaseEnv");
    if (!install || !logical || !call2 || !evaluate || !protect || !unprotect || !base) {
        return;
    }
    int failed = 0;
    r_value argument = protect(logical(1));
    r_value call = protect(call2(install("gc.time"), argument));
    evaluate(call, *base, &failed);
    unprotect(2);
    process->getrusage_works = !failed;
}

// --- moments at which R code may run ---------------------------------------------------------

// After each collection R runs finalizers: whatever a package's C code holds unprotected is gone by
// then, in plain R too. A call of R_CheckUserInterrupt is no such moment, as plain R allocates
// nothing there. So an object with a finalizer is held until a freeze is due.
static void on_released(r_value object);

static struct {
    r_value (*pointer)(void *address, r_value tag, r_value holds);
    void (*finalize)(r_value object, void (*by)(r_value));
    r_value (*weak)(r_value key, r_value value, r_value finalizer, int on_exit);
    r_value (*cons)(r_value first, r_value rest);
    r_value (*set_first)(r_value cell, r_value value);
    void (*preserve)(r_value object);
    r_value (*protect)(r_value object);
    void (*unprotect)(int count);
    r_value nothing, global;
} r;

static bool find_what_arms(void) {
    r_value *nil = (r_value *)symbol("R_NilValue"), *global = (r_value *)symbol("R_GlobalEnv");
    r.pointer = (r_value(*)(void *, r_value, r_value))symbol("R_MakeExternalPtr");
    r.finalize = (void (*)(r_value, void (*)(r_value)))symbol("R_RegisterCFinalizer");
    r.weak = (r_value(*)(r_value, r_value, r_value, int))symbol("R_MakeWeakRef");
    r.cons = (r_value(*)(r_value, r_value))symbol("Rf_cons");
    r.set_first = (r_value(*)(r_value, r_value))symbol("SETCAR");
    r.preserve = (void (*)(r_value))symbol("R_PreserveObject");
    r.protect = (r_value(*)(r_value))symbol("Rf_protect");
    r.unprotect = (void (*)(int))symbol("Rf_unprotect");
    r.nothing = nil ? *nil : NULL;
    r.global = global ? *global : NULL;
    return r.pointer && r.finalize && r.weak && r.cons && r.set_first && r.preserve && r.protect &&
           r.unprotect && r.nothing && r.global;
}

// While R runs a finalizer that registers another one, it forgets the other if the next in its list
// is ready as well, and none before it stays. So one that stays for ever goes before ours: the
// program's are as safe as without us.
static bool arm(void) {
    if ((!r.global && !find_what_arms()) || !pw_r_freeze_can_be()) {
        return false;
    }
    armed_by = pthread_self();
    r_value object = r.protect(r.pointer(NULL, r.nothing, r.nothing));
    if (!cell) {
        r_value made = r.protect(r.cons(r.nothing, r.nothing));
        r.preserve(made);
        r.unprotect(1);
        cell = made;
    }
    r.set_first(cell, object);
    r.finalize(object, on_released);
    r.weak(r.global, r.nothing, r.nothing, 0);
    r.unprotect(1);
    return true;
}

// The object is as old as the program: a full collection finds that nobody holds it.
void pw_r_release_if_due(struct pw_process *process) {
    if (armed && pthread_equal(armed_by, pthread_self()) && pw_r_freeze_is_due(process)) {
        r.set_first(cell, r.nothing);
        armed = false;
    }
}

static void freeze_if_due(bool in_finalizer) {
    bool wanted = announced_to->options.freeze != PW_FREEZE_OFF;
    armed = wanted && arm();
    if (wanted && pw_r_freeze_is_due(announced_to)) {
        pw_r_freeze(announced_to,
                    (struct pw_r_freeze_how){.watch = true, .in_finalizer = in_finalizer});
    }
}

static void on_released(r_value object) {
    (void)object;
    freeze_if_due(true);
}

// Once, and soon: while R starts, or before pagewise_on() has returned.
static void on_polled_events(void) {
    if (*polled_events == on_polled_events) { // else a later one calls us
        *polled_events = earlier_handler;
        is_handler = false;
    }
    if (!announced_to->getrusage_works) {
        enable_gc_time(announced_to);
    }
    if (!armed) {
        freeze_if_due(false);
    }
    if (earlier_handler) {
        earlier_handler();
    }
}

extern void (*R_PolledEvents)(void) __attribute__((weak));

bool pw_r_find(struct pw_process *process, bool is_start) {
    if (is_start && !&R_PolledEvents) {
        return false;
    }
    announced_to = process;
    pw_r_find_allocator(process);
    polled_events = (void (**)(void))symbol("R_PolledEvents");
    bool of_use = process->options.zero != PW_ZERO_OFF || process->options.early ||
                  process->options.relieve != PW_RELIEVE_OFF ||
                  process->options.freeze != PW_FREEZE_OFF;
    if (of_use && polled_events && !is_handler && process->options.collect != PW_COLLECT_BURST) {
        earlier_handler = *polled_events;
        *polled_events = on_polled_events;
        is_handler = true;
    }
    process->serves_r = polled_events != NULL;
    return process->serves_r;
}
