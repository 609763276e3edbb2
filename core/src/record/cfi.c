// SPDX-License-Identifier: MIT
//
// What of DWARF's call frame information compilers use on x86-64: the caller's frame lies at a
// distance from the stack pointer or the frame pointer, or where a realigned frame has noted it.
// Anything else ends the walk.

#include "record/cfi.h"

#include <stddef.h>
#include <string.h>

#define WORD       sizeof(uintptr_t)
#define PAGE       4096
#define REMEMBERED 4 // rows that a function may put aside

#ifdef __x86_64__

enum { POINTER = 6, STACK = 7, RETURN = 16 }; // registers' numbers
enum { BREG_POINTER = 0x70 + POINTER, DEREF = 0x06 };

// Reads up to `end`; past it, zeros, and `at` stays there.
struct reader {
    const unsigned char *at, *end;
};

static unsigned byte_of(struct reader *reader) {
    return reader->at < reader->end ? *reader->at++ : 0;
}

static uint64_t fixed(struct reader *reader, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)byte_of(reader) << 8 * i;
    }
    return value;
}

static uint64_t leb(struct reader *reader, bool is_signed) {
    uint64_t value = 0;
    unsigned shift = 0, byte;
    do {
        byte = byte_of(reader);
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        shift += 7;
    } while (byte & 0x80);
    return is_signed && byte & 0x40 && shift < 64 ? value | UINT64_MAX << shift : value;
}

static void skip(struct reader *reader, uint64_t bytes) {
    uint64_t left = (uint64_t)(reader->end - reader->at);
    reader->at += bytes < left ? bytes : left;
}

// How many bytes a pointer takes that is encoded so; 0: not known here.
static unsigned pointer_size(unsigned encoding) {
    switch (encoding & 7) {
    case 0:
    case 4:
        return 8;
    case 2:
        return 2;
    case 3:
        return 4;
    default:
        return 0;
    }
}

// --- rows ---------------------------------------------------------------------

// Where the caller's value of a register is.
struct rule {
    enum { SAME, AT_CFA, AT_POINTER, LOST } how;
    int64_t offset;
};

// What holds at one place of a function. The CFA is where the caller's frame begins.
struct row {
    enum { BY_STACK, BY_POINTER, NOTED_AT_POINTER, NOT_KNOWN } cfa;
    int64_t offset;
    struct rule pointer, back;
};

struct table {
    uint64_t code_factor;
    int64_t data_factor;
    unsigned encoding;
    struct row initial;
};

static void set(struct row *row, uint64_t number, struct rule rule) {
    if (number == POINTER) {
        row->pointer = rule;
    } else if (number == RETURN) {
        row->back = rule;
    }
}

static void set_base(struct row *row, uint64_t number) {
    row->cfa = number == STACK ? BY_STACK : number == POINTER ? BY_POINTER : NOT_KNOWN;
}

// A block of operations; the two that compilers make are those of functions that realign their
// frames. `is_value`: its result is the CFA itself, not where something is.
static bool read_block(struct reader *reader, bool is_value, int64_t *offset) {
    uint64_t size = leb(reader, false);
    struct reader block = *reader;
    skip(reader, size);
    block.end = reader->at;
    if (byte_of(&block) != BREG_POINTER) {
        return false;
    }
    *offset = (int64_t)leb(&block, true);
    return (!is_value || byte_of(&block) == DEREF) && block.at == block.end;
}

static struct rule at_cfa(int64_t offset) {
    return (struct rule){AT_CFA, offset};
}

// As the table has offsets. A damaged one may have any.
static int64_t scaled(uint64_t value, const struct table *table) {
    return (int64_t)(value * (uint64_t)table->data_factor);
}

// One operation of those that move no place. False: it is not known.
static bool apply(unsigned operation, struct reader *reader, const struct table *table,
                  struct row *row) {
    uint64_t number;
    int64_t offset;
    switch (operation) {
    case 0x00: // nop
        return true;
    case 0x05: // offset_extended
        number = leb(reader, false);
        set(row, number, at_cfa(scaled(leb(reader, false), table)));
        return true;
    case 0x06: // restore_extended
        number = leb(reader, false);
        set(row, number, number == POINTER ? table->initial.pointer : table->initial.back);
        return true;
    case 0x07: // undefined
        set(row, leb(reader, false), (struct rule){LOST, 0});
        return true;
    case 0x08: // same_value
        set(row, leb(reader, false), (struct rule){SAME, 0});
        return true;
    case 0x0c: // def_cfa
        set_base(row, leb(reader, false));
        row->offset = (int64_t)leb(reader, false);
        return true;
    case 0x0d: // def_cfa_register
        set_base(row, leb(reader, false));
        return true;
    case 0x0e: // def_cfa_offset
        row->offset = (int64_t)leb(reader, false);
        return true;
    case 0x0f: // def_cfa_expression
        row->cfa = read_block(reader, true, &offset) ? NOTED_AT_POINTER : NOT_KNOWN;
        row->offset = row->cfa == NOTED_AT_POINTER ? offset : 0;
        return true;
    case 0x10: // expression
        number = leb(reader, false);
        set(row, number,
            read_block(reader, false, &offset) ? (struct rule){AT_POINTER, offset}
                                               : (struct rule){LOST, 0});
        return true;
    case 0x11: // offset_extended_sf
        number = leb(reader, false);
        set(row, number, at_cfa(scaled(leb(reader, true), table)));
        return true;
    case 0x12: // def_cfa_sf
        set_base(row, leb(reader, false));
        row->offset = scaled(leb(reader, true), table);
        return true;
    case 0x13: // def_cfa_offset_sf
        row->offset = scaled(leb(reader, true), table);
        return true;
    case 0x2e: // GNU_args_size
        leb(reader, false);
        return true;
    default:
        return false;
    }
}

// How far an operation moves on in the function; 0: it does not.
static uint64_t advance(unsigned operation, struct reader *reader, const struct table *table) {
    if (operation >> 6 == 1) {
        return (operation & 0x3f) * table->code_factor;
    }
    unsigned bytes = operation == 2 ? 1 : operation == 3 ? 2 : operation == 4 ? 4 : 0;
    return fixed(reader, bytes) * table->code_factor;
}

// The row that holds at `target` bytes into the function.
static bool run(struct reader reader, const struct table *table, uint64_t target, struct row *row) {
    struct row remembered[REMEMBERED];
    size_t count = 0;
    uint64_t place = 0;
    while (reader.at < reader.end) {
        unsigned operation = byte_of(&reader), number = operation & 0x3f;
        bool moves = operation >> 6 == 1 || (operation >= 2 && operation <= 4);
        bool is_known = true;
        if (moves) {
            place += advance(operation, &reader, table);
            if (place > target) {
                return true;
            }
        } else if (operation >> 6 == 2) {
            set(row, number, at_cfa(scaled(leb(&reader, false), table)));
        } else if (operation >> 6 == 3) {
            set(row, number, number == POINTER ? table->initial.pointer : table->initial.back);
        } else if (operation == 0x0a && count < REMEMBERED) {
            remembered[count++] = *row;
        } else if (operation == 0x0b && count > 0) {
            *row = remembered[--count];
        } else {
            is_known = apply(operation, &reader, table, row);
        }
        if (!is_known) {
            return false;
        }
    }
    return true;
}

// --- entries ------------------------------------------------------------------

// The record at `start`: its length, then what it holds. False: it is none.
static bool open_record(const unsigned char *start, struct reader *reader) {
    struct reader head = {start, start + 4};
    uint64_t length = fixed(&head, 4);
    *reader = (struct reader){start + 4, start + 4 + length};
    return length > 4 && length < UINT32_MAX;
}

// What the entries of a compiled file have in common (a CIE).
static bool read_common(const unsigned char *start, struct table *table) {
    struct reader reader;
    if (!open_record(start, &reader) || fixed(&reader, 4) != 0) {
        return false;
    }
    unsigned version = byte_of(&reader);
    const char *letters = (const char *)reader.at;
    size_t count = strnlen(letters, (size_t)(reader.end - reader.at));
    skip(&reader, count + 1);
    table->code_factor = leb(&reader, false);
    table->data_factor = (int64_t)leb(&reader, true);
    uint64_t returns = version == 1 ? byte_of(&reader) : leb(&reader, false);
    if ((version != 1 && version != 3) || returns != RETURN || letters[0] != 'z') {
        return false;
    }
    uint64_t size = leb(&reader, false);
    struct reader values = reader;
    skip(&reader, size);
    values.end = reader.at;
    table->encoding = 0;
    for (size_t i = 1; i < count; i++) {
        switch (letters[i]) {
        case 'R':
            table->encoding = byte_of(&values);
            break;
        case 'L':
            byte_of(&values);
            break;
        case 'P': {
            unsigned bytes = pointer_size(byte_of(&values));
            skip(&values, bytes);
            if (!bytes) {
                return false;
            }
            break;
        }
        default: // a signal's frame, or what is not known
            return false;
        }
    }
    table->initial = (struct row){.cfa = NOT_KNOWN};
    return run(reader, table, UINT64_MAX, &table->initial);
}

static bool read_row(const unsigned char *entry, uint64_t target, struct row *row) {
    struct reader reader;
    if (!open_record(entry, &reader)) {
        return false;
    }
    const unsigned char *here = reader.at;
    uint64_t back = fixed(&reader, 4);
    struct table table;
    if (back == 0 || !read_common(here - back, &table)) {
        return false;
    }
    unsigned bytes = pointer_size(table.encoding);
    skip(&reader, 2 * bytes); // the function's place and length
    skip(&reader, leb(&reader, false));
    *row = table.initial;
    return bytes && run(reader, &table, target, row);
}

// --- steps --------------------------------------------------------------------

// A word of the stack above the frame's own end.
static bool load(const struct pw_cfi_frame *frame, uintptr_t end, uintptr_t at, uintptr_t *value) {
    if (at < frame->stack || at % WORD != 0 || end < WORD || at > end - WORD) {
        return false;
    }
    *value = *(const uintptr_t *)at;
    return true;
}

// Whether it lies on the stack is seen when the return address below it is loaded.
static bool find_caller(const struct pw_cfi_frame *frame, const struct row *row, uintptr_t end,
                        uintptr_t *cfa) {
    uintptr_t offset = (uintptr_t)row->offset;
    switch (row->cfa) {
    case BY_STACK:
        *cfa = frame->stack + offset;
        return true;
    case BY_POINTER:
        *cfa = frame->pointer + offset;
        return true;
    case NOTED_AT_POINTER:
        return load(frame, end, frame->pointer + offset, cfa);
    default:
        return false;
    }
}

bool pw_cfi_step(struct pw_cfi_frame *frame, const void *entry, uintptr_t function, uintptr_t end) {
    struct row row;
    uintptr_t cfa;
    // The call lies before the address: that may be the next function's.
    if (frame->address <= function || !read_row(entry, frame->address - 1 - function, &row) ||
        row.back.how != AT_CFA || row.back.offset != -(int64_t)WORD ||
        !find_caller(frame, &row, end, &cfa)) {
        return false;
    }
    struct pw_cfi_frame caller = {.stack = cfa, .pointer = frame->pointer};
    uintptr_t offset = (uintptr_t)row.pointer.offset;
    bool has_pointer = true;
    if (row.pointer.how == AT_CFA) {
        has_pointer = load(frame, end, cfa + offset, &caller.pointer);
    } else if (row.pointer.how == AT_POINTER) {
        has_pointer = load(frame, end, frame->pointer + offset, &caller.pointer);
    } else if (row.pointer.how == LOST) {
        caller.pointer = 0;
    }
    if (!has_pointer || !load(frame, end, cfa - WORD, &caller.address)) {
        return false;
    }
    *frame = caller;
    return true;
}

bool pw_cfi_step_by_pointer(struct pw_cfi_frame *frame, uintptr_t end) {
    struct pw_cfi_frame caller = {.stack = frame->pointer + 2 * WORD};
    if (!load(frame, end, frame->pointer, &caller.pointer) ||
        !load(frame, end, frame->pointer + WORD, &caller.address)) {
        return false;
    }
    *frame = caller;
    return true;
}

#define LONGEST_RETURN 6 // bytes

// add $SIZE, %rsp; pop %rbp; ret, of which the first two may be missing.
bool pw_cfi_step_by_code(struct pw_cfi_frame *frame, uintptr_t end) {
    if (frame->address % PAGE > PAGE - LONGEST_RETURN) {
        return false; // what follows may be no memory
    }
    const unsigned char *code = (const unsigned char *)frame->address;
    struct pw_cfi_frame caller = *frame;
    if (memcmp(code, "\x48\x83\xc4", 3) == 0 && code[3] < 0x80) {
        caller.stack += code[3];
        code += 4;
    }
    if (*code == 0x5d) {
        if (!load(frame, end, caller.stack, &caller.pointer)) {
            return false;
        }
        caller.stack += WORD;
        code++;
    }
    if (*code != 0xc3 || !load(frame, end, caller.stack, &caller.address)) {
        return false;
    }
    caller.stack += WORD;
    *frame = caller;
    return true;
}

#else

bool pw_cfi_step(struct pw_cfi_frame *frame, const void *entry, uintptr_t function, uintptr_t end) {
    (void)frame, (void)entry, (void)function, (void)end;
    return false;
}

bool pw_cfi_step_by_pointer(struct pw_cfi_frame *frame, uintptr_t end) {
    (void)frame, (void)end;
    return false;
}

bool pw_cfi_step_by_code(struct pw_cfi_frame *frame, uintptr_t end) {
    (void)frame, (void)end;
    return false;
}

#endif
