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

typedef void *r_value; // SEXP

static struct pw_process *announced_to;
static void (**polled_events)(void);
static void (*earlier_handler)(void);
static bool is_handler; // ours is among R's handlers, maybe behind a later one
static bool watches;    // an object waits for the next collection

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
// nothing there. So an object that nobody holds is made anew each time.
static void on_collected(r_value object);

static bool watch_next_collection(void) {
    r_value (*pointer)(void *, r_value, r_value) =
        (r_value(*)(void *, r_value, r_value))symbol("R_MakeExternalPtr");
    void (*finalize)(r_value, void (*)(r_value)) =
        (void (*)(r_value, void (*)(r_value)))symbol("R_RegisterCFinalizer");
    r_value (*protect)(r_value) = (r_value(*)(r_value))symbol("Rf_protect");
    void (*unprotect)(int) = (void (*)(int))symbol("Rf_unprotect");
    r_value *nil = (r_value *)symbol("R_NilValue");
    if (!pointer || !finalize || !protect || !unprotect || !nil) {
        return false;
    }
    finalize(protect(pointer(NULL, *nil, *nil)), on_collected);
    unprotect(1);
    return true;
}

static void freeze_if_due(bool in_finalizer) {
    bool wanted = announced_to->options.freeze != PW_FREEZE_OFF;
    watches = wanted && watch_next_collection();
    if (wanted && pw_r_freeze_is_due(announced_to)) {
        pw_r_freeze(announced_to,
                    (struct pw_r_freeze_how){.watch = true, .in_finalizer = in_finalizer});
    }
}

static void on_collected(r_value object) {
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
    if (!watches) {
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
