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
//
// Code that a program has made itself, CPython's trampolines or what V8 compiles, is in no table:
// there libgcc's walk ends. It goes on by what is left of the function where that does nothing but
// return, else by the frame pointer, and through the functions behind it by tables again. What a
// frame pointer leads to is not certain: so from there on steps are our own, which read the tables
// and the stack alone.

#include "os/module.h"
#include "record/cfi.h"
#include "record/log.h"

#include <dlfcn.h>
#include <string.h>
#include <unwind.h>

#define SETS      128
#define LONG_SETS 16 // of stacks through generated code
#define WAYS      4  // stacks that meet at the same caller and depth
#define LIBRARY   "libgcc_s.so.1"

#define MOST_ADDRESS   ((UINT64_C(1) << 47) - 1) // of a program
#define GENERATED_ROOM ((uintptr_t)1 << 31)      // of the code that a runtime makes

// How one stack was found.
struct stack {
    uintptr_t site, start; // the innermost return address; the stack pointer behind it
    size_t count;          // 0: none
    size_t certain;        // of them
    uint64_t *returns;     // innermost first
    uintptr_t *places;     // where each of them lies
};

// Most stacks are short, and lie close together.
struct pw_unwound {
    struct stack stacks[SETS][WAYS];
    struct stack long_stacks[LONG_SETS][WAYS];
    struct stack latest; // as it is being walked
    unsigned turn;
    bool has_long;
    uint64_t returns[SETS][WAYS][PW_LOG_USUAL_FRAMES];
    uintptr_t places[SETS][WAYS][PW_LOG_USUAL_FRAMES];
    uint64_t long_returns[LONG_SETS][WAYS][PW_LOG_MAX_FRAMES];
    uintptr_t long_places[LONG_SETS][WAYS][PW_LOG_MAX_FRAMES];
    uint64_t latest_returns[PW_LOG_MAX_FRAMES];
    uintptr_t latest_places[PW_LOG_MAX_FRAMES];
};

// As libgcc has it (dwarf_eh_bases).
struct bases {
    void *text, *data, *function;
};

static struct {
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    _Unwind_Ptr (*address)(struct _Unwind_Context *);
    _Unwind_Word (*stack_pointer)(struct _Unwind_Context *);
    _Unwind_Word (*any_register)(struct _Unwind_Context *, int);
    const void *(*find)(void *, struct bases *); // the entry of the tables for an address
    const void *module;                          // its own
} unwinder;

bool pw_unwind_start(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return false;
    }
    unwinder.address = (_Unwind_Ptr(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
    unwinder.stack_pointer =
        (_Unwind_Word(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetCFA");
    unwinder.any_register =
        (_Unwind_Word(*)(struct _Unwind_Context *, int))dlsym(library, "_Unwind_GetGR");
    unwinder.find = (const void *(*)(void *, struct bases *))dlsym(library, "_Unwind_Find_FDE");
    unwinder.backtrace =
        (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))dlsym(library, "_Unwind_Backtrace");
    const char *path;
    unwinder.module = pw_os_module_base((const void *)unwinder.backtrace, &path);
    return unwinder.address && unwinder.stack_pointer && unwinder.backtrace;
}

struct walk {
    struct stack *stack;
    uintptr_t end;     // of the memory that the stack lies in
    bool is_plain;     // every return address lies right below its frame
    bool is_ended;     // there is no further frame, or none that makes sense
    uintptr_t pointer; // the last frame's frame pointer
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
    if (pointer > walk->end || address < PW_PAGE || count == PW_LOG_USUAL_FRAMES ||
        (is_first ? pointer != stack->start || address != stack->site
                  : pointer <= stack->places[count - 1])) {
        walk->is_ended = true;
        return _URC_END_OF_STACK;
    }
    uintptr_t place = pointer - sizeof place;
    stack->returns[count] = address;
    stack->places[count] = place;
    walk->is_plain = walk->is_plain && *(const uintptr_t *)place == address;
    stack->count = count + 1;
    walk->pointer = unwinder.any_register ? unwinder.any_register(context, PW_CFI_POINTER) : 0;
    return _URC_NO_REASON;
}

// Could it be the address of code? `generated` is one outside of modules; runtimes keep such code
// together.
static bool is_plausible(uintptr_t address, uintptr_t generated) {
    uintptr_t distance = address > generated ? address - generated : generated - address;
    const char *path;
    return address >= PW_PAGE && address <= MOST_ADDRESS &&
           (distance < GENERATED_ROOM || pw_os_module_base((const void *)address, &path));
}

// From code without tables on. False: it led nowhere, and may lead somewhere the next time.
static bool go_on(struct walk *walk) {
    struct stack *stack = walk->stack;
    size_t last = stack->count - 1;
    struct pw_cfi_frame frame = {stack->returns[last], stack->places[last] + sizeof(uintptr_t),
                                 walk->pointer};
    uintptr_t generated = frame.address;
    bool is_certain = true; // what lies at the address is code
    while (stack->count < PW_LOG_MAX_FRAMES) {
        struct bases bases = {0};
        const void *entry = unwinder.find((void *)(frame.address - 1), &bases);
        if (entry) {
            if (!pw_cfi_step(&frame, entry, (uintptr_t)bases.function, walk->end)) {
                return true; // as at the start of a thread
            }
        } else if (!is_certain || !pw_cfi_step_by_code(&frame, walk->end)) {
            is_certain = false;
            if (!pw_cfi_step_by_pointer(&frame, walk->end)) {
                return false;
            }
        }
        if (!is_plausible(frame.address, generated)) {
            return frame.address == 0;
        }
        stack->returns[stack->count] = frame.address;
        stack->places[stack->count] = frame.stack - sizeof(uintptr_t);
        stack->count++;
        stack->certain += is_certain;
    }
    return true;
}

// It allocates while it holds the lock of its list of tables, where a program registers some for
// code that it has made: a walk would wait for that lock for ever.
static bool is_unwinders(uintptr_t site) {
    const char *path;
    const void *module = pw_os_module_base((const void *)site, &path);
    return module && module == unwinder.module;
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

static const struct stack *find_in(const struct stack *set, uintptr_t site, uintptr_t start,
                                   uintptr_t end) {
    for (int way = 0; way < WAYS; way++) {
        if (is_same(&set[way], site, start, end)) {
            return &set[way];
        }
    }
    return NULL;
}

// In the place of another.
static void keep(struct pw_unwound *known, unsigned set) {
    const struct stack *latest = &known->latest;
    unsigned way = known->turn++ % WAYS, long_set = set % LONG_SETS;
    bool is_long = latest->count > PW_LOG_USUAL_FRAMES;
    struct stack *stack = is_long ? &known->long_stacks[long_set][way] : &known->stacks[set][way];
    stack->returns = is_long ? known->long_returns[long_set][way] : known->returns[set][way];
    stack->places = is_long ? known->long_places[long_set][way] : known->places[set][way];
    known->has_long |= is_long;
    memcpy(stack->returns, latest->returns, latest->count * sizeof *latest->returns);
    memcpy(stack->places, latest->places, latest->count * sizeof *latest->places);
    stack->site = latest->site;
    stack->start = latest->start;
    stack->count = latest->count;
    stack->certain = latest->certain;
}

// NULL: no walk may be made.
static const struct stack *find(struct pw_unwound *known, unsigned set, const struct pw_lane *lane,
                                uintptr_t site, uintptr_t start) {
    uintptr_t end = lane->stack_high;
    const struct stack *found = find_in(known->stacks[set], site, start, end);
    if (!found && known->has_long) {
        found = find_in(known->long_stacks[set % LONG_SETS], site, start, end);
    }
    if (found) {
        return found;
    }
    if (is_unwinders(site)) {
        return NULL;
    }
    struct stack *latest = &known->latest;
    *latest = (struct stack){
        .site = site,
        .start = start,
        .returns = known->latest_returns,
        .places = known->latest_places,
    };
    struct walk walk = {.stack = latest, .end = end, .is_plain = true};
    unwinder.backtrace(visit, &walk);
    latest->certain = latest->count;
    if (!walk.is_ended && latest->count > 0 && unwinder.find && unwinder.any_register) {
        bool is_held = pw_hold_libraries();
        walk.is_plain &= is_held && go_on(&walk);
        if (is_held) {
            pw_hold_release();
        }
    }
    // Else it has a signal's frame, for instance, or a frame pointer that led nowhere.
    if (walk.is_plain) {
        keep(known, set);
    }
    return latest;
}

static void forget(struct stack *stacks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        stacks[i].count = 0;
    }
}

void pw_unwind_forget(struct pw_lane *lane) {
    if (lane->unwound) {
        forget(lane->unwound->stacks[0], (size_t)SETS * WAYS);
        forget(lane->unwound->long_stacks[0], (size_t)LONG_SETS * WAYS);
    }
}

size_t pw_unwind(struct pw_lane *lane, const void *site, const void *frame, const uint64_t **stack,
                 size_t *certain) {
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
    const struct stack *found =
        find(lane->unwound, (unsigned)(key >> 57), lane, (uintptr_t)site, start);
    if (!found) {
        return 0;
    }
    *stack = found->returns;
    *certain = found->certain;
    return found->count;
}
