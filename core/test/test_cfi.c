// SPDX-License-Identifier: MIT
//
// Steps up a stack by unwind tables: the same as the compiler's own unwinder makes, and none that
// leaves the stack, whatever the registers hold.
#include "os/module.h"
#include "record/cfi.h"
#include "support.h"

#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>
#include <unwind.h>

enum { MOST = 200, PAGE = 1 << PW_PAGE_SHIFT };

// Those that a function leaves as they were, beside the frame pointer.
static const int kept[] = {3, 12, 13, 14, 15};

static struct pw_cfi_frame frames[MOST];
static size_t count;
static uintptr_t stack_end;

static struct pw_cfi_frame frame_at(uintptr_t address, uintptr_t stack, uintptr_t pointer) {
    return (struct pw_cfi_frame){.address = address, .stack = stack, .pointer = pointer};
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument) {
    (void)argument;
    if (count == MOST || _Unwind_GetIP(context) == 0) {
        return _URC_END_OF_STACK;
    }
    struct pw_cfi_frame *frame = &frames[count++];
    int before = 0;
    *frame = frame_at(_Unwind_GetIPInfo(context, &before), _Unwind_GetCFA(context),
                      _Unwind_GetGR(context, PW_CFI_POINTER));
    frame->is_exact = before;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        frame->others[kept[i]] = _Unwind_GetGR(context, kept[i]);
    }
    return _URC_NO_REASON;
}

static bool find(const struct pw_cfi_frame *frame, struct pw_cfi_row *row) {
    struct pw_os_place place;
    if (!pw_os_module_place(frame->address - !frame->is_exact, &place) || !place.is_code) {
        return false;
    }
    struct pw_cfi_tables tables = {place.tables, place.tables_low, place.tables_high};
    return place.tables && pw_cfi_find(&tables, frame, row);
}

static bool step(struct pw_cfi_frame *frame, uintptr_t end) {
    struct pw_cfi_row row;
    return find(frame, &row) && pw_cfi_step(frame, &row, end);
}

static bool step_by_code(struct pw_cfi_frame *frame, size_t size, uintptr_t end) {
    struct pw_cfi_row row;
    return pw_cfi_read_code((const unsigned char *)frame->address, size, &row) &&
           pw_cfi_step(frame, &row, end);
}

static bool is_same(const struct pw_cfi_frame *one, const struct pw_cfi_frame *other) {
    bool same = one->address == other->address && one->stack == other->stack &&
                one->pointer == other->pointer && one->is_exact == other->is_exact;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        same &= one->others[kept[i]] == other->others[kept[i]];
    }
    return same;
}

// Ours take as many steps as libgcc's, and each leads to the same place. While the calls go on:
// what is behind them is overwritten afterwards.
static void look(void) {
    count = 0;
    _Unwind_Backtrace(visit, NULL);
    struct pw_cfi_frame frame = frames[0];
    for (size_t i = 1; i < count; i++) {
        bool has_stepped = step(&frame, stack_end);
        if (!has_stepped || !is_same(&frame, &frames[i])) {
            fail_msg("frame %zu of %zu: %s address %lx for %lx, stack %lx for %lx", i, count,
                     has_stepped ? "another," : "none,", frame.address, frames[i].address,
                     frame.stack, frames[i].stack);
        }
    }
    assert_false(step(&frame, stack_end)); // the program's start
}

// --- functions whose frames differ ------------------------------------------------

#define KEPT __attribute__((noinline))

static volatile int sink;

KEPT static void innermost(void) {
    look();
    sink++;
}

KEPT static void with_registers(int a, int b, int c, int d, int e, int f) {
    int products[] = {a * b, b * c, c * d, d * e, e * f};
    innermost();
    sink += products[0] + products[1] + products[2] + products[3] + products[4] + a + b + c + d + e;
}

KEPT static void realigned(int value) {
    _Alignas(64) volatile char room[300];
    room[value % 300] = 1;
    with_registers(value, 2, 3, 4, 5, 6);
    sink += room[0];
}

KEPT static void of_any_size(int value) {
    volatile char *room = alloca((size_t)value * 16);
    room[0] = 1;
    realigned(value);
    sink += room[0];
}

KEPT static int compare(const void *a, const void *b) {
    of_any_size(*(const int *)a + 7);
    return *(const int *)a - *(const int *)b;
}

KEPT static void recurse(int depth) {
    int values[] = {3, 1, 2};
    if (depth > 0) {
        recurse(depth - 1);
    } else {
        qsort(values, 3, sizeof values[0], compare);
    }
    sink += values[0];
}

static void test_steps_are_those_of_the_compilers_unwinder(void **state) {
    (void)state;
    recurse(5);
    assert_true(count > 15 && count < MOST);
}

static void handle(int number) {
    (void)number;
    with_registers(1, 2, 3, 4, 5, 6);
}

static int interrupted(const void *a, const void *b) {
    raise(SIGILL);
    return *(const int *)a - *(const int *)b;
}

// Through the C library's trampoline, whose table has expressions, and to the instruction itself.
static void test_signals_are_crossed(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = handle}, before;
    assert_int_equal(sigaction(SIGILL, &action, &before), 0);
    count = 0;
    qsort((int[]){2, 1}, 2, sizeof(int), interrupted);
    assert_int_equal(sigaction(SIGILL, &before, NULL), 0);
    bool is_crossed = false;
    for (size_t i = 0; i < count; i++) {
        is_crossed |= frames[i].is_exact && i > 0;
    }
    assert_true(is_crossed);
}

// --- registers that hold anything ----------------------------------------------------

static uint64_t seed = 20260101;

static uint64_t draw(void) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return seed >> 16;
}

// A stack with nothing behind it or before.
static uintptr_t small_stack(void) {
    char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    return (uintptr_t)pages + PAGE;
}

static uintptr_t any_pointer(uintptr_t low) {
    switch (draw() % 6) {
    case 0:
        return low + draw() % PAGE / 8 * 8;
    case 1:
        return low + draw() % PAGE;
    case 2:
        return low + PAGE - draw() % 64 / 8 * 8;
    case 3:
        return low - draw() % 64;
    case 4:
        return (uintptr_t)0 - draw() % 64 / 8 * 8;
    default:
        return (uintptr_t)draw();
    }
}

static void test_nothing_is_read_beside_the_stack(void **state) {
    (void)state;
    recurse(5);
    uintptr_t low = small_stack(), end = low + PAGE;
    unsigned steps = 0;
    for (int round = 0; round < 200000; round++) {
        for (int i = 0; i < 4; i++) {
            *(uintptr_t *)(low + draw() % PAGE / 8 * 8) = any_pointer(low);
        }
        struct pw_cfi_frame frame =
            frame_at(frames[draw() % count].address, low + draw() % PAGE / 8 * 8, any_pointer(low));
        struct pw_cfi_frame before = frame;
        bool has_stepped = round % 3 == 0   ? pw_cfi_step_by_pointer(&frame, end)
                           : round % 3 == 1 ? step_by_code(&frame, 6, end)
                                            : step(&frame, end);
        if (has_stepped) {
            assert_true(frame.stack > before.stack && frame.stack <= end);
            steps++;
        } else {
            assert_memory_equal(&frame, &before, sizeof frame);
        }
    }
    assert_true(steps > 1000);
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
}

// What is left of a function is run in the head where it only returns, and no other code is taken
// for it. Nothing is read past what may be.
static void test_returns_are_recognized(void **state) {
    (void)state;
    static const struct {
        unsigned char code[8];
        unsigned words; // that lie before the return address; 99: it is no return
        bool has_pointer;
    } cases[] = {
        {{0xc3}, 0, false},
        {{0x5d, 0xc3}, 1, true},
        {{0x48, 0x83, 0xc4, 0x08, 0xc3}, 1, false},
        {{0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3}, 3, true},
        {{0x48, 0x83, 0xc4, 0xf8, 0xc3}, 99, false}, // makes the frame larger
        {{0x48, 0x83, 0xc4, 0x04, 0xc3}, 99, false},
        {{0x90, 0xc3}, 99, false},
        {{0x48, 0x83, 0xc0, 0x08, 0xc3}, 99, false},
        {{0}, 99, false},
    };
    uintptr_t low = small_stack();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uintptr_t words[40] = {1, 2, 3, 4, 5}, start = (uintptr_t)words;
        memcpy((void *)low, cases[i].code, sizeof cases[i].code);
        struct pw_cfi_frame frame = frame_at(low, start, 7);
        bool is_return = step_by_code(&frame, sizeof cases[i].code, start + sizeof words);
        assert_int_equal(is_return, cases[i].words != 99);
        if (is_return) {
            unsigned back = cases[i].words;
            assert_int_equal(frame.address, words[back]);
            assert_int_equal(frame.stack, start + (back + 1) * sizeof words[0]);
            assert_int_equal(frame.pointer, cases[i].has_pointer ? words[back - 1] : 7);
        }
    }
    // At a page's end, behind which there is nothing.
    for (size_t size = 1; size <= 6; size++) {
        uintptr_t words[2] = {1, 2};
        struct pw_cfi_frame last = frame_at(low + PAGE - size, (uintptr_t)words, 0);
        memset((void *)last.address, 0xc3, size);
        assert_true(step_by_code(&last, size, (uintptr_t)(words + 2)));
        *(unsigned char *)(low + PAGE - size) = 0x5d;
        last = frame_at(low + PAGE - size, (uintptr_t)words, 0);
        assert_int_equal(step_by_code(&last, size, (uintptr_t)(words + 2)), size > 1);
    }
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
}

// An entry for a function at 0x1000, behind what it has in common with others.
static const unsigned char table[] = {
    // Addresses take four bytes, and the frame lies 8 above the stack pointer.
    20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, //
    0x0c, 7, 8, 0x90, 1, 0, 0,
    // The function's.
    36, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0,
    // From 4 on 16 above the stack pointer, and %rbp is saved below the return address.
    0x44, 0x0e, 16, 0x86, 2,
    // From 8 on it is noted 8 below %rbp.
    0x44, 0x0f, 3, 0x76, 0x78, 6, 0x10, 6, 2, 0x76, 0,
    // From 12 on a register tells that holds no address.
    0x44, 0x0c, 10, 8, 0, 0, 0};
enum { ENTRY = 24, FUNCTION = 0x1000 };

static bool step_in(const unsigned char *entries, struct pw_cfi_frame *frame, uintptr_t end) {
    struct pw_cfi_tables tables = {NULL, entries, entries + sizeof table};
    struct pw_cfi_row row;
    return pw_cfi_read(&tables, entries + ENTRY, FUNCTION, frame, &row) &&
           pw_cfi_step(frame, &row, end);
}

// The row is that of the call, which ends where the address is.
static void test_rows_are_those_of_the_call(void **state) {
    (void)state;
    enum { WORD = sizeof(uintptr_t), LAST = 10, NOTED = 6 };
    uintptr_t words[LAST + 1], start = (uintptr_t)words;
    for (uintptr_t i = 0; i <= LAST; i++) {
        words[i] = 100 + i;
    }
    uintptr_t pointer = start + NOTED * WORD;
    words[NOTED - 1] =
        start + (LAST + 1) * WORD; // which leaves the return address in the last word
    static const struct {
        uintptr_t at, address, words, pointer; // `pointer` 0: as before
    } cases[] = {
        {1, 100, 1, 0},          {4, 100, 1, 0},           {5, 101, 2, 100}, {8, 101, 2, 100},
        {9, 110, LAST + 1, 106}, {12, 110, LAST + 1, 106}, {13, 0, 0, 0},    {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pw_cfi_frame frame = frame_at(FUNCTION + cases[i].at, start, pointer);
        bool has_stepped = step_in(table, &frame, start + sizeof words);
        assert_int_equal(has_stepped, cases[i].address != 0);
        if (has_stepped) {
            assert_int_equal(frame.address, cases[i].address);
            assert_int_equal(frame.stack, start + cases[i].words * WORD);
            assert_int_equal(frame.pointer, cases[i].pointer ? cases[i].pointer : pointer);
        }
    }
}

// Nothing is read behind an entry, nor beside the stack, and no number is too large.
static void test_damaged_tables_are_survived(void **state) {
    (void)state;
    uintptr_t low = small_stack(), end = low + PAGE, last = small_stack() + PAGE;
    unsigned char *damaged = (unsigned char *)(last - sizeof table);
    for (int round = 0; round < 200000; round++) {
        memcpy(damaged, table, sizeof table);
        size_t start = draw() % sizeof table, size = 1 + draw() % 12;
        bool is_large = draw() % 2;
        for (size_t at = start; at < start + size && at < sizeof table; at++) {
            damaged[at] = is_large ? 0xff : (unsigned char)draw();
        }
        *(uintptr_t *)(low + draw() % PAGE / 8 * 8) = any_pointer(low);
        struct pw_cfi_frame frame =
            frame_at(FUNCTION + draw() % 64, low + draw() % PAGE / 8 * 8, any_pointer(low));
        struct pw_cfi_frame before = frame;
        if (step_in(damaged, &frame, end)) {
            assert_true(frame.stack > before.stack && frame.stack <= end);
        } else {
            assert_memory_equal(&frame, &before, sizeof frame);
        }
    }
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
    assert_int_equal(munmap((void *)(last - 2 * PAGE), 3 * PAGE), 0);
}

// --- expressions ------------------------------------------------------------------

// The CFA by operations; the caller's return address is where it begins, less a word.
static bool compute(const unsigned char *operations, size_t size, struct pw_cfi_frame *frame,
                    uintptr_t end) {
    enum { COMMON = 24, HEAD = 20 };
    unsigned char entries[128] = {0};
    memcpy(entries, table, COMMON);
    unsigned char *own = entries + COMMON;
    own[0] = 60;
    own[4] = COMMON + 4;
    own[12] = 64;
    own[17] = 0x0f;
    own[18] = (unsigned char)size;
    assert_true(HEAD - 1 + size <= 64);
    memcpy(own + 19, operations, size);
    struct pw_cfi_tables tables = {NULL, entries, entries + sizeof entries};
    struct pw_cfi_row row;
    return pw_cfi_read(&tables, own, FUNCTION, frame, &row) && pw_cfi_step(frame, &row, end);
}

static void test_expressions_are_computed(void **state) {
    (void)state;
    enum { WORD = sizeof(uintptr_t), NONE = 99 };
    static const struct {
        unsigned char operations[24];
        unsigned size, words; // how far above the stack pointer; NONE: nowhere
        uintptr_t address;
    } cases[] = {
        {{0x77, 16}, 2, 2, 5},                         // breg7 16
        {{0x77, 8, 0x06}, 3, 5, 5},                    // breg7 8; deref: word 1 points to 5
        {{0x77, 8, 0x06, 0x23, 8}, 5, 6, 5},           // and 8 more
        {{0x77, 8, 0x06, 0x38, 0x22}, 5, 6, 5},        // lit8; plus
        {{0x77, 0x78}, 2, NONE, 5},                    // below the stack pointer
        {{0x77, 0}, 2, NONE, 5},                       // at it
        {{0x77, 4}, 2, NONE, 5},                       // between words
        {{0x06}, 1, NONE, 5},                          // nothing is there
        {{0x22}, 1, NONE, 5},                          //
        {{0x77, 16, 0x22}, 3, NONE, 5},                //
        {{0}, 0, NONE, 5},                             //
        {{0x77, 0x78, 0x06}, 3, NONE, 5},              // reads below
        {{0x30, 0x06}, 2, NONE, 5},                    // reads at 0
        {{0x09, 0xf8, 0x06}, 3, NONE, 5},              // reads at -8
        {{0x77, 24, 0x2f, 0xfd, 0xff}, 5, NONE, 5},    // a jump
        {{0x77, 16, 0x31, 0x33, 0x24, 0x22}, 6, 3, 5}, // 16 + (1 << 3)
        {{0x77, 24, 0x09, 0xf8, 0x22}, 5, 2, 5},       // 24 + -8
        {{0x77, 24, 0x38, 0x1c, 0x12, 0x13}, 6, 2, 5}, // 24 - 8; dup; drop
        {{0x30, 0x77, 16, 0x16, 0x13}, 5, 2, 5},       // lit0; breg7 16; swap; drop
        // Of stubs that call through a table: 8 above, and 8 more from the 11th byte of 16 on.
        {{0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 11, 1, 10},
        {{0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 11, 2, 11},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uintptr_t words[8], start = (uintptr_t)words;
        for (uintptr_t at = 0; at < 8; at++) {
            words[at] = 100 + at;
        }
        words[1] = start + 5 * WORD;
        struct pw_cfi_frame frame = frame_at(FUNCTION + cases[i].address, start, 7), before = frame;
        bool is_known = compute(cases[i].operations, cases[i].size, &frame, start + sizeof words);
        if (is_known != (cases[i].words != NONE)) {
            fail_msg("case %zu: %d", i, is_known);
        }
        if (is_known) {
            assert_int_equal(frame.stack, start + cases[i].words * WORD);
            assert_int_equal(frame.address, words[cases[i].words - 1]);
        } else {
            assert_memory_equal(&frame, &before, sizeof frame);
        }
    }
}

// Whatever they are: nothing is read beside the stack, and each ends.
static void test_any_expression_is_survived(void **state) {
    (void)state;
    uintptr_t low = small_stack(), end = low + PAGE;
    for (int round = 0; round < 200000; round++) {
        unsigned char operations[40];
        for (size_t at = 0; at < sizeof operations; at++) {
            static const unsigned char usual[] = {0x77, 0x76, 0x06, 0x22, 0x23, 0x12,
                                                  0x08, 0x1c, 0x24, 0x30, 0x80, 0x1e};
            operations[at] = draw() % 2 ? usual[draw() % sizeof usual] : (unsigned char)draw();
        }
        *(uintptr_t *)(low + draw() % PAGE / 8 * 8) = any_pointer(low);
        struct pw_cfi_frame frame =
            frame_at(FUNCTION + 1 + draw() % 60, low + draw() % PAGE / 8 * 8, any_pointer(low));
        struct pw_cfi_frame before = frame;
        if (compute(operations, 1 + draw() % sizeof operations, &frame, end)) {
            assert_true(frame.stack > before.stack && frame.stack <= end);
        } else {
            assert_memory_equal(&frame, &before, sizeof frame);
        }
    }
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
}

// --- contents ---------------------------------------------------------------------

// Of 5 functions, 16 bytes each and 16 apart, whatever the number of them is said to be.
static void test_contents_are_searched(void **state) {
    (void)state;
    enum { FUNCTIONS = 5, COMMON = 24, OWN = 20, WORD = sizeof(uintptr_t) };
    uintptr_t low = small_stack(), end = low + PAGE;
    unsigned char *contents = (unsigned char *)(end - 12 - 8 * FUNCTIONS);
    unsigned char *entries = contents - COMMON - (size_t)(OWN * FUNCTIONS);
    memcpy(entries, table, COMMON);
    memcpy(contents, "\x01\x1b\x03\x3b\0\0\0\0\x05\0\0\0", 12);
    for (int32_t i = 0; i < FUNCTIONS; i++) {
        unsigned char *own = entries + COMMON + (size_t)(i * OWN);
        int32_t words[] = {16, COMMON + i * OWN + 4, 0, 16, 0};
        int32_t pair[] = {0x10000 + 32 * i, (int32_t)(own - contents)};
        memcpy(own, words, sizeof words);
        memcpy(contents + 12 + 8 * i, pair, sizeof pair);
    }
    struct pw_cfi_tables tables = {contents, (unsigned char *)low, (unsigned char *)end};
    struct pw_cfi_row row;
    for (int at = -40; at < 32 * FUNCTIONS + 40; at++) {
        struct pw_cfi_frame frame = frame_at((uintptr_t)contents + 0x10000 + (uintptr_t)at, low, 0);
        bool is_inside = at > 0 && at <= 32 * FUNCTIONS && (at - 1) % 32 < 16;
        assert_int_equal(pw_cfi_find(&tables, &frame, &row), is_inside);
    }
    // More than fit are none, and neither are those elsewhere.
    struct pw_cfi_frame frame = frame_at((uintptr_t)contents + 0x10000 + 1, low, 0);
    assert_true(pw_cfi_find(&tables, &frame, &row));
    contents[8] = FUNCTIONS + 1;
    assert_false(pw_cfi_find(&tables, &frame, &row));
    contents[8] = FUNCTIONS;
    for (int round = 0; round < 100000; round++) {
        size_t at = draw() % (size_t)(12 + 8 * FUNCTIONS);
        unsigned char before = contents[at];
        contents[at] = (unsigned char)draw();
        frame.address = (uintptr_t)contents + 0x10000 + draw() % 200;
        pw_cfi_find(&tables, &frame, &row);
        contents[at] = before;
    }
    tables.high = entries + COMMON;
    assert_false(pw_cfi_find(&tables, &frame, &row));
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
}

extern void *__libc_stack_end;

int main(void) {
#ifndef __x86_64__
    return 77;
#endif
    stack_end = ((uintptr_t)__libc_stack_end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_those_of_the_compilers_unwinder),
        cmocka_unit_test(test_signals_are_crossed),
        cmocka_unit_test(test_expressions_are_computed),
        cmocka_unit_test(test_any_expression_is_survived),
        cmocka_unit_test(test_contents_are_searched),
        cmocka_unit_test(test_nothing_is_read_beside_the_stack),
        cmocka_unit_test(test_returns_are_recognized),
        cmocka_unit_test(test_rows_are_those_of_the_call),
        cmocka_unit_test(test_damaged_tables_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
