// SPDX-License-Identifier: MIT
//
// Whole stacks by the unwind tables (.eh_frame) that Debian's binaries have where they have no
// frame pointers. The compiler's own unwinder (libgcc) is not asked: it reads the code at whatever
// a frame returns to and takes locks that a fork may leave held. Here a step up (cfi.c) reads the
// thread's own stack and tables of loaded modules, which are kept loaded meanwhile, and takes no
// lock: _dl_find_object (2.35) tells the module of an address.
//
// What a place in the code says about its frame is remembered. And a server's stacks are few: so
// the last ones are kept, by the caller and where its frame lies, each with the places in which its
// return addresses lay: as long as these hold the same, it is the same stack. (All that could
// differ is a frame of variable size that has moved and left its old return address behind.) Where
// the callers alone are those of the last walk, as in recursion that goes deeper, this walk ends
// where it meets that one.
//
// Code that a program has made itself, CPython's trampolines or what V8 compiles, is in no table.
// There the walk goes on by what is left of the function where that does nothing but return, else
// by the frame pointer, and through the functions behind it by tables again. What a frame pointer
// leads to is not certain.

#include "os/module.h"
#include "record/cfi.h"
#include "record/log.h"

#include <string.h>

#define SETS      128
#define LONG_SETS 16  // of stacks through generated code
#define WAYS      4   // stacks that meet at the same caller and depth
#define STEPS     256 // places in the code that are remembered
#define TRUSTED   256 // times that generated code is taken for what it was
#define MOST_OWN  32  // frames of ours

#define MOST_ADDRESS   ((UINT64_C(1) << 47) - 1) // of a program
#define GENERATED_ROOM ((uintptr_t)1 << 31)      // of the code that a runtime makes

// How one stack was found.
struct stack {
    uintptr_t site, start; // the innermost return address; the stack pointer behind it
    size_t count;          // 0: none
    bool has_generated;    // it leads through code without tables, which may be long
    uint64_t *returns;     // innermost first
    uintptr_t *places;     // where each of them lies
};

// What is known of the place in the code where a frame goes on.
struct step {
    uintptr_t key; // 0: nothing
    unsigned left; // so many times more, where the code may change
    enum { BY_TABLES, BY_CODE, BY_POINTER, NO_CODE } how;
    struct pw_cfi_row row;
};

// Most stacks are short, and lie close together.
struct pw_unwound {
    struct step steps[STEPS];
    struct step passing; // that cannot be remembered
    struct stack stacks[SETS][WAYS];
    struct stack long_stacks[LONG_SETS][WAYS];
    struct stack walks[2]; // the last one that may be kept, and the one that is going on
    unsigned last;
    unsigned turn;
    bool has_long;
    uint64_t returns[SETS][WAYS][PW_LOG_USUAL_FRAMES];
    uintptr_t places[SETS][WAYS][PW_LOG_USUAL_FRAMES];
    uint64_t long_returns[LONG_SETS][WAYS][PW_LOG_MAX_FRAMES];
    uintptr_t long_places[LONG_SETS][WAYS][PW_LOG_MAX_FRAMES];
    uint64_t walk_returns[2][PW_LOG_MAX_FRAMES];
    uintptr_t walk_places[2][PW_LOG_MAX_FRAMES];
};

bool pw_unwind_start(void) {
#ifdef __x86_64__
    return pw_os_module_has_places();
#else
    return false;
#endif
}

// --- steps --------------------------------------------------------------------

// What can be said of code that is in no table, of which `size` bytes lie in one piece. The kernel
// copies it: the program may take it away at any time, or have forbidden to read it. Where the
// kernel may not, it stays unread.
static void read_code(struct step *step, uintptr_t address, size_t size) {
    unsigned char code[PW_CFI_LONGEST_RETURN];
    const void *there = (const void *)address;
    size = size < sizeof code ? size : sizeof code;
    step->how = BY_POINTER;
    if (pw_log.is_frozen) {
        step->left = 0; // it may be seen another time
        return;
    }
    if (!pw_log.is_blind && size > 0 && pw_os_peek(there, code, size) &&
        pw_cfi_read_code(code, size, &step->row)) {
        step->how = BY_CODE;
    }
}

// A page that is not in memory is left alone: the program itself may have to fill it.
static enum pw_os_page page_at(uintptr_t address) {
    bool may_ask = !pw_log.is_frozen && !pw_log.is_blind;
    return may_ask ? pw_os_page_at((const void *)address) : PW_OS_PAGE_UNKNOWN;
}

static void learn_generated(struct step *step, uintptr_t address) {
    enum pw_os_page page = page_at(address);
    step->left = TRUSTED;
    read_code(step, address, page == PW_OS_PAGE_HERE ? PW_PAGE - address % PW_PAGE : 0);
    if (page == PW_OS_PAGE_NONE) {
        step->how = NO_CODE;
    }
}

// Nothing is read before it is known to be there.
static void learn(struct step *step, const struct pw_cfi_frame *frame) {
    struct pw_os_place place;
    uintptr_t address = frame->address;
    step->left = UINT32_MAX;
    // The call lies before the address.
    if (pw_os_module_place(address - !frame->is_exact, &place)) {
        struct pw_cfi_tables tables = {place.tables, place.tables_low, place.tables_high};
        if (!place.is_code) {
            step->how = NO_CODE;
        } else if (place.tables && pw_cfi_find(&tables, frame, &step->row)) {
            step->how = BY_TABLES;
        } else {
            uintptr_t end = (uintptr_t)place.code_end;
            read_code(step, address, address < end ? end - address : 0);
        }
        return;
    }
    learn_generated(step, address);
}

static const struct step *step_from(struct pw_unwound *known, const struct pw_cfi_frame *frame) {
    uintptr_t key = frame->address << 1 | frame->is_exact;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    struct step *step = &known->steps[(hash >> 32) % STEPS];
    if (step->key == key && step->left > 0) {
        step->left -= step->left <= TRUSTED && !pw_log.is_frozen;
        return step;
    }
    known->passing.how = NO_CODE;
    if (frame->address < PW_PAGE || frame->address > MOST_ADDRESS) {
        return &known->passing;
    }
    learn(&known->passing, frame);
    // Operations that lie in the tables may go with them.
    if (known->passing.left == 0 ||
        (known->passing.how == BY_TABLES && known->passing.row.has_blocks)) {
        return &known->passing;
    }
    // A signal's handler may leave by a jump in between.
    step->key = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *step = known->passing;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    step->key = key;
    return step;
}

// --- walks --------------------------------------------------------------------

// Could it be the address of code? `generated` is one outside of modules; runtimes keep such code
// together.
static bool is_plausible(uintptr_t address, uintptr_t generated) {
    uintptr_t distance = address > generated ? address - generated : generated - address;
    const char *path;
    return address >= PW_PAGE && address <= MOST_ADDRESS &&
           (distance < GENERATED_ROOM || pw_os_module_base((const void *)address, &path));
}

// Where the caller goes on, inlined into a function of ours.
__attribute__((always_inline)) static inline struct pw_cfi_frame here(void) {
    struct pw_cfi_frame frame = {.is_exact = true};
#ifdef __x86_64__
    __asm__ volatile("leaq 0f(%%rip), %%rax\n0:\n\tmovq %%rax, %0\n\tmovq %%rsp, %1\n\t"
                     "movq %%rbp, %2\n\tmovq %%rbx, %3\n\tmovq %%r12, %4\n\t"
                     "movq %%r13, %5\n\tmovq %%r14, %6\n\tmovq %%r15, %7"
                     : "=m"(frame.address), "=m"(frame.stack), "=m"(frame.pointer),
                       "=m"(frame.others[3]), "=m"(frame.others[12]), "=m"(frame.others[13]),
                       "=m"(frame.others[14]), "=m"(frame.others[15])
                     :
                     : "rax");
#endif
    return frame;
}

// The frame of the function that has called malloc, with the registers that it will find. False:
// our own functions' tables do not lead there.
static bool leave_own(struct pw_unwound *known, struct pw_cfi_frame *frame, uintptr_t start,
                      uintptr_t end) {
    for (int i = 0; i < MOST_OWN && frame->stack < start; i++) {
        const struct step *step = step_from(known, frame);
        if (step->how != BY_TABLES || !pw_cfi_step(frame, &step->row, end)) {
            return false;
        }
    }
    return frame->stack == start;
}

static void add(struct stack *stack, const struct pw_cfi_frame *frame) {
    stack->returns[stack->count] = frame->address;
    stack->places[stack->count] = frame->stack - sizeof(uintptr_t);
    stack->count++;
}

// Where a walk may meet the last one.
struct meeting {
    const struct stack *last;
    size_t at;
};

// Whether the frame is one of the last walk's, and its callers are still the same: then they are
// added. Where that walk was cut off before this one may be, they are not known.
static bool meets(struct stack *stack, struct meeting *meeting, const struct pw_cfi_frame *frame,
                  uintptr_t end) {
    const struct stack *last = meeting->last;
    uintptr_t place = frame->stack - sizeof place;
    while (meeting->at < last->count && last->places[meeting->at] < place) {
        meeting->at++;
    }
    size_t at = meeting->at;
    if (at >= last->count || last->places[at] != place || last->returns[at] != frame->address ||
        last->places[last->count - 1] >= end) {
        return false;
    }
    size_t count = last->count - at, room = PW_LOG_USUAL_FRAMES - stack->count;
    if (last->has_generated || (last->count == PW_LOG_USUAL_FRAMES && count < room)) {
        return false;
    }
    count = count < room ? count : room;
    for (size_t i = at + 1; i < at + count; i++) {
        if (*(const uintptr_t *)last->places[i] != last->returns[i]) {
            meeting->at = i + 1; // nor can it meet below
            return false;
        }
    }
    memcpy(stack->returns + stack->count, last->returns + at, count * sizeof *stack->returns);
    memcpy(stack->places + stack->count, last->places + at, count * sizeof *stack->places);
    stack->count += count;
    return true;
}

// False: the stack may not be kept. It has a signal's frame, for instance, whose return address
// does not lie right below the frame, or it has led nowhere, and may lead somewhere the next time.
static bool walk(struct pw_unwound *known, struct stack *stack, struct pw_cfi_frame frame,
                 uintptr_t end) {
    struct meeting meeting = {&known->walks[known->last], 0};
    bool is_plain = true, is_certain = true;
    uintptr_t generated = 0; // the first address without tables
    while (true) {
        if (is_plain && !stack->has_generated && meets(stack, &meeting, &frame, end)) {
            return true;
        }
        const struct step *step = step_from(known, &frame);
        if (step->how != NO_CODE || stack->count == 0) {
            add(stack, &frame);
        }
        if (step->how == NO_CODE) {
            return false;
        }
        if (step->how != BY_TABLES && !generated) {
            generated = frame.address;
            stack->has_generated = true;
        }
        if (stack->count >= (generated ? PW_LOG_MAX_FRAMES : PW_LOG_USUAL_FRAMES)) {
            return is_plain;
        }
        if (step->how == BY_TABLES) {
            if (!pw_cfi_step(&frame, &step->row, end)) {
                return is_plain && pw_cfi_is_first(&step->row);
            }
        } else if (!is_certain || step->how != BY_CODE || !pw_cfi_step(&frame, &step->row, end)) {
            is_certain = false;
            if (!pw_cfi_step_by_pointer(&frame, end)) {
                return false;
            }
        }
        if (frame.address < PW_PAGE || (generated && !is_plausible(frame.address, generated))) {
            return false;
        }
        is_plain &= ((const uintptr_t *)frame.stack)[-1] == frame.address;
    }
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

// In the place of another, which counts no more if a signal's handler leaves by a jump in between.
static void keep(struct pw_unwound *known, unsigned set) {
    const struct stack *latest = &known->walks[known->last];
    unsigned way = known->turn++ % WAYS, long_set = set % LONG_SETS;
    bool is_long = latest->count > PW_LOG_USUAL_FRAMES;
    struct stack *stack = is_long ? &known->long_stacks[long_set][way] : &known->stacks[set][way];
    stack->returns = is_long ? known->long_returns[long_set][way] : known->returns[set][way];
    stack->places = is_long ? known->long_places[long_set][way] : known->places[set][way];
    known->has_long |= is_long;
    stack->count = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    memcpy(stack->returns, latest->returns, latest->count * sizeof *latest->returns);
    memcpy(stack->places, latest->places, latest->count * sizeof *latest->places);
    stack->site = latest->site;
    stack->start = latest->start;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    stack->count = latest->count;
}

// NULL: no walk may be made, since another thread unloads a library.
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
    if (!pw_hold_libraries()) {
        return NULL;
    }
    unsigned next = !known->last;
    struct stack *stack = &known->walks[next];
    *stack = (struct stack){
        .site = site,
        .start = start,
        .returns = known->walk_returns[next],
        .places = known->walk_places[next],
    };
    struct pw_cfi_frame frame = here();
    if (!leave_own(known, &frame, start, end) || frame.address != site) {
        frame = (struct pw_cfi_frame){
            .address = site, .stack = start, .pointer = ((const uintptr_t *)start)[-2]};
    }
    if (walk(known, stack, frame, end)) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        known->last = next;
        keep(known, set);
    }
    pw_hold_release();
    return stack;
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
        forget(lane->unwound->walks, 2);
        for (size_t i = 0; i < STEPS; i++) {
            lane->unwound->steps[i].key = 0;
        }
    }
}

size_t pw_unwind(struct pw_lane *lane, const void *site, const void *frame,
                 const uint64_t **stack) {
    // The frame holds the one before, and the return address.
    uintptr_t start = (uintptr_t)frame + 2 * sizeof start;
    if (start < lane->stack_low || start > lane->stack_high) {
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
    return found->count;
}
