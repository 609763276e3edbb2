// SPDX-License-Identifier: MIT
//
// Steps up a stack by unwind tables: the same as the compiler's own unwinder makes, and none that
// leaves the stack, whatever the registers hold.
#include "record/cfi.h"
#include "support.h"

#include <alloca.h>
#include <sys/mman.h>
#include <unwind.h>

enum { MOST = 200, PAGE = 4096 };

// As libgcc has it (dwarf_eh_bases).
struct bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *address, struct bases *bases);

static struct pw_cfi_frame frames[MOST];
static size_t count;
static uintptr_t stack_end;

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument) {
    (void)argument;
    if (count == MOST || _Unwind_GetIP(context) == 0) {
        return _URC_END_OF_STACK;
    }
    frames[count++] = (struct pw_cfi_frame){_Unwind_GetIP(context), _Unwind_GetCFA(context),
                                            _Unwind_GetGR(context, PW_CFI_POINTER)};
    return _URC_NO_REASON;
}

static bool step(struct pw_cfi_frame *frame, uintptr_t end) {
    struct bases bases = {0};
    const void *entry = _Unwind_Find_FDE((void *)(frame->address - 1), &bases);
    return entry && pw_cfi_step(frame, entry, (uintptr_t)bases.function, end);
}

// Ours take as many steps as libgcc's, and each leads to the same place. While the calls go on:
// what is behind them is overwritten afterwards.
static void look(void) {
    count = 0;
    _Unwind_Backtrace(visit, NULL);
    struct pw_cfi_frame frame = frames[0];
    for (size_t i = 1; i < count; i++) {
        bool has_stepped = step(&frame, stack_end);
        if (!has_stepped || memcmp(&frame, &frames[i], sizeof frame) != 0) {
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
        struct pw_cfi_frame frame = {frames[draw() % count].address, low + draw() % PAGE / 8 * 8,
                                     any_pointer(low)};
        struct pw_cfi_frame before = frame;
        bool has_stepped = round % 3 == 0   ? pw_cfi_step_by_pointer(&frame, end)
                           : round % 3 == 1 ? pw_cfi_step_by_code(&frame, end)
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
// for it. Nothing is read past a page that may be the last.
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
        struct pw_cfi_frame frame = {low, start, 7};
        bool is_return = pw_cfi_step_by_code(&frame, start + sizeof words);
        assert_int_equal(is_return, cases[i].words != 99);
        if (is_return) {
            unsigned back = cases[i].words;
            assert_int_equal(frame.address, words[back]);
            assert_int_equal(frame.stack, start + (back + 1) * sizeof words[0]);
            assert_int_equal(frame.pointer, cases[i].has_pointer ? words[back - 1] : 7);
        }
    }
    uintptr_t word = 1;
    struct pw_cfi_frame last = {low + PAGE - 1, (uintptr_t)&word, 0};
    *(unsigned char *)last.address = 0xc3;
    assert_false(pw_cfi_step_by_code(&last, (uintptr_t)(&word + 1)));
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
    // From 12 on another register tells.
    0x44, 0x0c, 10, 8, 0, 0, 0};
enum { ENTRY = 24, FUNCTION = 0x1000 };

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
        struct pw_cfi_frame frame = {FUNCTION + cases[i].at, start, pointer};
        bool has_stepped = pw_cfi_step(&frame, table + ENTRY, FUNCTION, start + sizeof words);
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
    enum { RECORD = 8 }; // what a record begins with: its length, and what belongs to what
    uintptr_t low = small_stack(), end = low + PAGE, last = small_stack() + PAGE;
    unsigned char *damaged = (unsigned char *)(last - sizeof table);
    for (int round = 0; round < 200000; round++) {
        memcpy(damaged, table, sizeof table);
        size_t start = draw() % sizeof table, size = 1 + draw() % 12;
        bool is_large = draw() % 2;
        for (size_t at = start; at < start + size && at < sizeof table; at++) {
            bool is_head = at < RECORD || (at >= ENTRY && at < ENTRY + RECORD);
            damaged[at] = is_head ? table[at] : is_large ? 0xff : (unsigned char)draw();
        }
        *(uintptr_t *)(low + draw() % PAGE / 8 * 8) = any_pointer(low);
        struct pw_cfi_frame frame = {FUNCTION + draw() % 64, low + draw() % PAGE / 8 * 8,
                                     any_pointer(low)};
        struct pw_cfi_frame before = frame;
        if (pw_cfi_step(&frame, damaged + ENTRY, FUNCTION, end)) {
            assert_true(frame.stack > before.stack && frame.stack <= end);
        } else {
            assert_memory_equal(&frame, &before, sizeof frame);
        }
    }
    assert_int_equal(munmap((void *)(low - PAGE), 3 * PAGE), 0);
    assert_int_equal(munmap((void *)(last - 2 * PAGE), 3 * PAGE), 0);
}

extern void *__libc_stack_end;

int main(void) {
#ifndef __x86_64__
    return 77;
#endif
    stack_end = ((uintptr_t)__libc_stack_end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_those_of_the_compilers_unwinder),
        cmocka_unit_test(test_nothing_is_read_beside_the_stack),
        cmocka_unit_test(test_returns_are_recognized),
        cmocka_unit_test(test_rows_are_those_of_the_call),
        cmocka_unit_test(test_damaged_tables_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
