// SPDX-License-Identifier: MIT
//
// Whole stacks by the unwind tables (.eh_frame) that Debian's binaries have where they have no
// frame pointers. The compiler's own unwinder (libgcc) reads them: it takes no lock and allocates
// nothing where the C library has _dl_find_object (2.35), which exceptions need just as much.
//
// It takes about a microsecond a stack, and a server's stacks are few. So the last stacks are kept,
// by the caller and where its frame lies, each with the places in which its return addresses lay:
// as long as these hold the same, it is the same stack. (All that could differ is a frame of
// variable size that has moved and left its old return address behind.)

#include "record/log.h"

#include <dlfcn.h>
#include <unwind.h>

#define SETS    128
#define WAYS    4 // stacks that meet at the same caller and depth
#define LIBRARY "libgcc_s.so.1"

// How one stack was found.
struct stack {
    uintptr_t site, start; // the innermost return address; the stack pointer behind it
    size_t count;          // 0: none
    uint64_t returns[PW_LOG_MAX_FRAMES]; // innermost first
    uintptr_t places[PW_LOG_MAX_FRAMES]; // where each of them lies
};

struct pw_unwound {
    struct stack stacks[SETS][WAYS];
    struct stack strange; // the last one that cannot be found again
    unsigned turn;
};

static struct {
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    _Unwind_Ptr (*address)(struct _Unwind_Context *);
    _Unwind_Word (*stack_pointer)(struct _Unwind_Context *);
} unwinder;

bool pw_unwind_start(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return false;
    }
    unwinder.address = (_Unwind_Ptr(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
    unwinder.stack_pointer =
        (_Unwind_Word(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetCFA");
    unwinder.backtrace =
        (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))dlsym(library, "_Unwind_Backtrace");
    return unwinder.address && unwinder.stack_pointer && unwinder.backtrace;
}

struct walk {
    struct stack *stack;
    uintptr_t end; // of the memory that the stack lies in
    bool is_plain; // every return address lies right below its frame
};

// Called for each frame, our own first. Ends the walk where tables are wrong: frames must lie on
// the thread's stack, each above the one before.
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument) {
    struct walk *walk = argument;
    struct stack *stack = walk->stack;
    uintptr_t pointer = unwinder.stack_pointer(context);
    uintptr_t address = unwinder.address(context);
    size_t count = stack->count;
    if (pointer < stack->start) {
        return _URC_NO_REASON;
    }
    bool is_first = count == 0;
    if (pointer > walk->end || address < PW_PAGE || count == PW_LOG_MAX_FRAMES ||
        (is_first ? pointer != stack->start || address != stack->site
                  : pointer <= stack->places[count - 1])) {
        return _URC_END_OF_STACK;
    }
    uintptr_t place = pointer - sizeof place;
    stack->returns[count] = address;
    stack->places[count] = place;
    walk->is_plain = walk->is_plain && *(const uintptr_t *)place == address;
    stack->count = count + 1;
    return _URC_NO_REASON;
}

// `end`: of the thread's stack, which may be another thread's than when the stack was found.
static bool is_same(const struct stack *stack, uintptr_t site, uintptr_t start, uintptr_t end) {
    if (stack->count == 0 || stack->site != site || stack->start != start ||
        stack->places[stack->count - 1] >= end) {
        return false;
    }
    for (size_t i = 1; i < stack->count; i++) {
        if (*(const uintptr_t *)stack->places[i] != stack->returns[i]) {
            return false;
        }
    }
    return true;
}

static struct stack *find(struct pw_unwound *known, struct stack *set, const struct pw_lane *lane,
                          uintptr_t site, uintptr_t start) {
    for (int way = 0; way < WAYS; way++) {
        if (is_same(&set[way], site, start, lane->stack_high)) {
            return &set[way];
        }
    }
    struct stack *stack = &set[known->turn++ % WAYS];
    stack->count = 0;
    stack->site = site;
    stack->start = start;
    struct walk walk = {stack, lane->stack_high, true};
    unwinder.backtrace(visit, &walk);
    if (!walk.is_plain) {
        // A signal's frame, for instance.
        known->strange = *stack;
        stack->count = 0;
        return &known->strange;
    }
    return stack;
}

void pw_unwind_forget(struct pw_lane *lane) {
    for (int set = 0; lane->unwound && set < SETS; set++) {
        for (int way = 0; way < WAYS; way++) {
            lane->unwound->stacks[set][way].count = 0;
        }
    }
}

size_t pw_unwind(struct pw_lane *lane, const void *site, const void *frame,
                 const uint64_t **stack) {
    // The frame holds the one before, and the return address.
    uintptr_t start = (uintptr_t)frame + 2 * sizeof start;
    if (!unwinder.backtrace || start < lane->stack_low || start > lane->stack_high) {
        return 0;
    }
    if (!lane->unwound && !pw_log.is_frozen) {
        lane->unwound = pw_os_map_table((sizeof *lane->unwound + PW_PAGE - 1) & ~(PW_PAGE - 1));
    }
    if (!lane->unwound) {
        return 0;
    }
    uint64_t key = ((uintptr_t)site ^ start << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct stack *set = lane->unwound->stacks[key >> 57];
    const struct stack *found = find(lane->unwound, set, lane, (uintptr_t)site, start);
    *stack = found->returns;
    return found->count;
}
