// SPDX-License-Identifier: MIT
//
// DWARF's call frame information as compilers and the C library use it on x86-64, the few
// operations of its expressions included: they know no jumps, so each ends. Anything else ends the
// walk.

#include "record/cfi.h"

#include <string.h>

#define WORD       sizeof(uintptr_t)
#define REMEMBERED 4 // rows that a function may put aside
#define DEPTH      8 // of an expression's stack

#ifdef __x86_64__

enum { FIRST_BREG = 0x70, DEREF = 0x06, PLUS_CONSTANT = 0x23 };

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

// An address that is relative to where it stands, or to nothing. False: neither.
static bool pointer_of(struct reader *reader, unsigned encoding, uintptr_t *address) {
    enum { BASE = 0x70, FROM_HERE = 0x10, INDIRECT = 0x80, SIGNED = 0x08 };
    uintptr_t here = (uintptr_t)reader->at;
    unsigned bytes = pointer_size(encoding), base = encoding & BASE;
    if (!bytes || encoding & INDIRECT || (base != 0 && base != FROM_HERE)) {
        return false;
    }
    uint64_t value = fixed(reader, bytes), sign = UINT64_C(1) << (8 * bytes - 1);
    value = encoding & SIGNED ? (value ^ sign) - sign : value;
    *address = value + (base == FROM_HERE ? here : 0);
    return true;
}

// --- rows ---------------------------------------------------------------------

// Where the caller's value of a register is; of the CFA, what it is.
enum {
    SAME,
    LOST,
    AT_CFA,   // in memory, counted from the CFA
    IS_CFA,   // the CFA itself, and the offset
    REGISTER, // a register, and the offset
    AT,       // in memory, counted from a register
    BLOCK,    // what operations result in
    AT_BLOCK, // in memory, where they say
};

struct table {
    uint64_t code_factor;
    int64_t data_factor;
    unsigned encoding;
    bool is_signal;
    struct pw_cfi_row initial;
};

static void set(struct pw_cfi_row *row, uint64_t number, struct pw_cfi_rule rule) {
    if (number >= PW_CFI_COUNT) {
        return; // vectors, which hold no addresses
    }
    row->rules[number] = rule;
    row->changed |= UINT32_C(1) << number;
    row->has_blocks |= rule.how == BLOCK || rule.how == AT_BLOCK;
}

static void restore(struct pw_cfi_row *row, uint64_t number, const struct table *table) {
    if (number < PW_CFI_COUNT) {
        uint32_t bit = UINT32_C(1) << number;
        row->rules[number] = table->initial.rules[number];
        row->changed = (row->changed & ~bit) | (table->initial.changed & bit);
    }
}

static void set_base(struct pw_cfi_row *row, uint64_t number, int64_t offset) {
    row->cfa = (struct pw_cfi_rule){.how = number < PW_CFI_COUNT ? REGISTER : LOST,
                                    .number = (unsigned char)number,
                                    .offset = offset};
}

// A block of operations. Most are a register and an offset, and what lies there if `is_value`,
// which leaves no need for the tables afterwards.
static struct pw_cfi_rule read_block(struct reader *reader, bool is_value) {
    const unsigned char *start = reader->at;
    uint64_t size = leb(reader, false);
    struct reader block = *reader;
    skip(reader, size);
    block.end = reader->at;
    struct pw_cfi_rule rule = {.how = AT};
    unsigned operation = byte_of(&block);
    if (operation >= FIRST_BREG && operation < FIRST_BREG + PW_CFI_COUNT) {
        rule.number = (unsigned char)(operation - FIRST_BREG);
        rule.offset = (int64_t)leb(&block, true);
        if (is_value && block.at == block.end) {
            rule.how = REGISTER;
            return rule;
        }
        bool is_known = !is_value || byte_of(&block) == DEREF;
        if (is_known && is_value && block.at < block.end) {
            is_known = byte_of(&block) == PLUS_CONSTANT;
            uint64_t after = leb(&block, false);
            is_known &= after <= INT32_MAX;
            rule.after = (int32_t)after;
        }
        if (is_known && block.at == block.end) {
            return rule;
        }
    }
    return (struct pw_cfi_rule){.how = is_value ? BLOCK : AT_BLOCK, .block = start};
}

static struct pw_cfi_rule at_cfa(int64_t offset) {
    return (struct pw_cfi_rule){.how = AT_CFA, .offset = offset};
}

// As the table has offsets. A damaged one may have any.
static int64_t scaled(uint64_t value, const struct table *table) {
    return (int64_t)(value * (uint64_t)table->data_factor);
}

// One operation of those that move no place. False: it is not known.
static bool apply(unsigned operation, struct reader *reader, const struct table *table,
                  struct pw_cfi_row *row) {
    uint64_t number;
    switch (operation) {
    case 0x00: // nop
        return true;
    case 0x05: // offset_extended
        number = leb(reader, false);
        set(row, number, at_cfa(scaled(leb(reader, false), table)));
        return true;
    case 0x06: // restore_extended
        restore(row, leb(reader, false), table);
        return true;
    case 0x07: // undefined
        set(row, leb(reader, false), (struct pw_cfi_rule){.how = LOST});
        return true;
    case 0x08: // same_value
        set(row, leb(reader, false), (struct pw_cfi_rule){.how = SAME});
        return true;
    case 0x09: { // register
        number = leb(reader, false);
        uint64_t other = leb(reader, false);
        set(row, number,
            (struct pw_cfi_rule){.how = other < PW_CFI_COUNT ? REGISTER : LOST,
                                 .number = (unsigned char)other});
        return true;
    }
    case 0x0c: // def_cfa
        number = leb(reader, false);
        set_base(row, number, (int64_t)leb(reader, false));
        return true;
    case 0x0d: // def_cfa_register
        set_base(row, leb(reader, false), row->cfa.how == REGISTER ? row->cfa.offset : 0);
        return true;
    case 0x0e: // def_cfa_offset
        set_base(row, row->cfa.how == REGISTER ? row->cfa.number : PW_CFI_COUNT,
                 (int64_t)leb(reader, false));
        return true;
    case 0x0f: // def_cfa_expression
        row->cfa = read_block(reader, true);
        row->has_blocks |= row->cfa.how == BLOCK;
        return true;
    case 0x10: // expression
    case 0x16: // val_expression
        number = leb(reader, false);
        set(row, number, read_block(reader, operation == 0x16));
        return true;
    case 0x11: // offset_extended_sf
        number = leb(reader, false);
        set(row, number, at_cfa(scaled(leb(reader, true), table)));
        return true;
    case 0x12: // def_cfa_sf
        number = leb(reader, false);
        set_base(row, number, scaled(leb(reader, true), table));
        return true;
    case 0x13: // def_cfa_offset_sf
        set_base(row, row->cfa.how == REGISTER ? row->cfa.number : PW_CFI_COUNT,
                 scaled(leb(reader, true), table));
        return true;
    case 0x14: // val_offset
    case 0x15: // val_offset_sf
        number = leb(reader, false);
        set(row, number,
            (struct pw_cfi_rule){.how = IS_CFA,
                                 .offset = scaled(leb(reader, operation == 0x15), table)});
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
static bool run(struct reader reader, const struct table *table, uint64_t target,
                struct pw_cfi_row *row) {
    struct pw_cfi_row remembered[REMEMBERED];
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
            restore(row, number, table);
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

static bool is_inside(const struct pw_cfi_tables *tables, const unsigned char *at, size_t size) {
    return at >= tables->low && at <= tables->high && (size_t)(tables->high - at) >= size;
}

// The record at `start`: its length, then what it holds. False: it is none.
static bool open_record(const struct pw_cfi_tables *tables, const unsigned char *start,
                        struct reader *reader) {
    if (!is_inside(tables, start, 4)) {
        return false;
    }
    struct reader head = {start, start + 4};
    uint64_t length = fixed(&head, 4);
    *reader = (struct reader){start + 4, start + 4};
    if (length <= 4 || !is_inside(tables, start + 4, length)) {
        return false;
    }
    reader->end += length;
    return true;
}

// What the entries of a compiled file have in common (a CIE).
static bool read_common(const struct pw_cfi_tables *tables, const unsigned char *start,
                        struct table *table) {
    struct reader reader;
    if (!open_record(tables, start, &reader) || fixed(&reader, 4) != 0) {
        return false;
    }
    unsigned version = byte_of(&reader);
    const char *letters = (const char *)reader.at;
    size_t count = strnlen(letters, (size_t)(reader.end - reader.at));
    skip(&reader, count + 1);
    table->code_factor = leb(&reader, false);
    table->data_factor = (int64_t)leb(&reader, true);
    uint64_t returns = version == 1 ? byte_of(&reader) : leb(&reader, false);
    if ((version != 1 && version != 3) || returns != PW_CFI_RETURN || count == 0 ||
        letters[0] != 'z') {
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
        case 'S':
            table->is_signal = true;
            break;
        default: // what is not known
            return false;
        }
    }
    table->initial = (struct pw_cfi_row){
        .cfa = {.how = LOST}, .is_signal = table->is_signal, .blocks_end = tables->high};
    return run(reader, table, UINT64_MAX, &table->initial);
}

// The call lies before the address: that may be the next function's.
static uintptr_t place_of(const struct pw_cfi_frame *frame) {
    return frame->address - !frame->is_exact;
}

bool pw_cfi_read(const struct pw_cfi_tables *tables, const unsigned char *entry, uintptr_t function,
                 const struct pw_cfi_frame *frame, struct pw_cfi_row *row) {
    enum { FORMAT = 0x07 };
    struct reader reader;
    if (frame->address == 0 || place_of(frame) < function || !open_record(tables, entry, &reader)) {
        return false;
    }
    const unsigned char *here = reader.at;
    uint64_t back = fixed(&reader, 4), target = place_of(frame) - function;
    struct table table = {0};
    if (back == 0 || back > (uint64_t)(here - tables->low) ||
        !read_common(tables, here - back, &table)) {
        return false;
    }
    uintptr_t start, length;
    if (!pointer_of(&reader, table.encoding, &start) ||
        !pointer_of(&reader, table.encoding & FORMAT, &length) || target >= length) {
        return false;
    }
    skip(&reader, leb(&reader, false));
    *row = table.initial;
    return run(reader, &table, target, row);
}

// The contents are pairs, of where a function begins and its entry, in order. Both are told by
// their distance from where the contents begin.
struct pair {
    int32_t function, entry;
};

bool pw_cfi_find(const struct pw_cfi_tables *tables, const struct pw_cfi_frame *frame,
                 struct pw_cfi_row *row) {
    enum { HEAD = 4, FROM_CONTENTS = 0x3b };
    const unsigned char *contents = tables->contents;
    if (!is_inside(tables, contents, HEAD) || contents[0] != 1 || contents[3] != FROM_CONTENTS) {
        return false;
    }
    struct reader reader = {contents + HEAD, tables->high};
    uintptr_t first, count;
    if (!pointer_of(&reader, contents[1], &first) || !pointer_of(&reader, contents[2], &count) ||
        count > (uintptr_t)(reader.end - reader.at) / sizeof(struct pair)) {
        return false;
    }
    int64_t wanted = (int64_t)(place_of(frame) - (uintptr_t)contents);
    const unsigned char *pairs = reader.at;
    uintptr_t low = 0, high = count;
    struct pair pair;
    while (low < high) {
        uintptr_t middle = low + (high - low) / 2;
        memcpy(&pair, pairs + middle * sizeof pair, sizeof pair);
        if (pair.function <= wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return false;
    }
    memcpy(&pair, pairs + (low - 1) * sizeof pair, sizeof pair);
    if (pair.entry < tables->low - contents || pair.entry > tables->high - contents) {
        return false;
    }
    uintptr_t function = (uintptr_t)contents + (uintptr_t)(int64_t)pair.function;
    return pw_cfi_read(tables, contents + pair.entry, function, frame, row);
}

// add $SIZE, %rsp; pop %rbp; ret, of which the first two may be missing.
bool pw_cfi_read_code(const unsigned char *code, size_t size, struct pw_cfi_row *row) {
    unsigned char left[PW_CFI_LONGEST_RETURN + 1] = {0};
    memcpy(left, code, size < PW_CFI_LONGEST_RETURN ? size : PW_CFI_LONGEST_RETURN);
    *row = (struct pw_cfi_row){.cfa = {.how = REGISTER, .number = PW_CFI_STACK, .offset = WORD}};
    const unsigned char *at = left;
    if (memcmp(at, "\x48\x83\xc4", 3) == 0 && at[3] < 0x80) {
        row->cfa.offset += at[3];
        at += 4;
    }
    if (*at == 0x5d) {
        row->cfa.offset += WORD;
        set(row, PW_CFI_POINTER, at_cfa(-2 * (int64_t)WORD));
        at++;
    }
    set(row, PW_CFI_RETURN, at_cfa(-(int64_t)WORD));
    return *at == 0xc3;
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

static uintptr_t register_of(const struct pw_cfi_frame *frame, unsigned number) {
    switch (number) {
    case PW_CFI_POINTER:
        return frame->pointer;
    case PW_CFI_STACK:
        return frame->stack;
    case PW_CFI_RETURN:
        return frame->address;
    default:
        return frame->others[number];
    }
}

struct values {
    uintptr_t of[DEPTH];
    unsigned count;
};

static bool push(struct values *values, uintptr_t value) {
    if (values->count == DEPTH) {
        return false;
    }
    values->of[values->count++] = value;
    return true;
}

// An operation on the last value. False: it is none of these, or nothing is there.
static bool compute_one(unsigned operation, struct reader *reader, struct values *values) {
    if (values->count < 1) {
        return false;
    }
    uintptr_t *last = &values->of[values->count - 1];
    switch (operation) {
    case 0x12: // dup
        return push(values, *last);
    case 0x13: // drop
        values->count--;
        return true;
    case 0x1f: // neg
        *last = 0 - *last;
        return true;
    case 0x20: // not
        *last = ~*last;
        return true;
    case PLUS_CONSTANT:
        *last += leb(reader, false);
        return true;
    default:
        return false;
    }
}

// The same for two.
static bool compute_two(unsigned operation, struct values *values) {
    if (values->count < 2) {
        return false;
    }
    uintptr_t *result = &values->of[values->count - 2], a = result[0], b = result[1];
    intptr_t signed_a = (intptr_t)a, signed_b = (intptr_t)b;
    switch (operation) {
    case 0x16: // swap
        result[0] = b;
        result[1] = a;
        return true;
    case 0x1a:
        *result = a & b;
        break;
    case 0x1c:
        *result = a - b;
        break;
    case 0x1e:
        *result = a * b;
        break;
    case 0x21:
        *result = a | b;
        break;
    case 0x22:
        *result = a + b;
        break;
    case 0x24:
        *result = b < 64 ? a << b : 0;
        break;
    case 0x25:
        *result = b < 64 ? a >> b : 0;
        break;
    case 0x27:
        *result = a ^ b;
        break;
    case 0x29:
        *result = a == b;
        break;
    case 0x2a:
        *result = signed_a >= signed_b;
        break;
    case 0x2b:
        *result = signed_a > signed_b;
        break;
    case 0x2c:
        *result = signed_a <= signed_b;
        break;
    case 0x2d:
        *result = signed_a < signed_b;
        break;
    case 0x2e:
        *result = a != b;
        break;
    default:
        return false;
    }
    values->count--;
    return true;
}

// `initial`: the CFA, on which an expression for a register works; NULL for the CFA's own.
static bool evaluate(const struct pw_cfi_frame *frame, uintptr_t end, struct reader reader,
                     const uintptr_t *initial, uintptr_t *result) {
    struct values values = {{initial ? *initial : 0}, initial != NULL};
    uint64_t size = leb(&reader, false);
    struct reader block = reader;
    skip(&reader, size);
    block.end = reader.at;
    while (block.at < block.end) {
        unsigned operation = byte_of(&block);
        bool is_done;
        if (operation >= FIRST_BREG && operation < FIRST_BREG + PW_CFI_COUNT) {
            uintptr_t value = register_of(frame, operation - FIRST_BREG);
            is_done = push(&values, value + leb(&block, true));
        } else if (operation >= 0x30 && operation <= 0x4f) { // lit
            is_done = push(&values, operation - 0x30);
        } else if (operation >= 0x08 && operation <= 0x0f) { // const1u to const8s
            unsigned bytes = 1U << (operation - 0x08) / 2;
            uint64_t sign = operation % 2 ? UINT64_C(1) << (8 * bytes - 1) : 0;
            is_done = push(&values, (fixed(&block, bytes) ^ sign) - sign);
        } else if (operation == 0x10 || operation == 0x11) { // constu, consts
            is_done = push(&values, leb(&block, operation == 0x11));
        } else if (operation == DEREF) {
            is_done = values.count > 0 &&
                      load(frame, end, values.of[values.count - 1], &values.of[values.count - 1]);
        } else {
            is_done = operation == 0x96 || // nop
                      compute_one(operation, &block, &values) || compute_two(operation, &values);
        }
        if (!is_done) {
            return false;
        }
    }
    *result = values.count ? values.of[values.count - 1] : 0;
    return values.count > 0;
}

// What is not simply in memory below the CFA. `cfa` NULL: it is what is looked for.
static bool computed(const struct pw_cfi_frame *frame, const struct pw_cfi_row *row, uintptr_t end,
                     const struct pw_cfi_rule *rule, const uintptr_t *cfa, uintptr_t *value) {
    uintptr_t offset = (uintptr_t)rule->offset;
    switch (rule->how) {
    case IS_CFA:
        *value = cfa ? *cfa + offset : 0;
        return cfa;
    case AT:
        if (!load(frame, end, register_of(frame, rule->number) + offset, value)) {
            return false;
        }
        *value += (uintptr_t)(intptr_t)rule->after;
        return true;
    case BLOCK:
        return evaluate(frame, end, (struct reader){rule->block, row->blocks_end}, cfa, value);
    case AT_BLOCK:
        return evaluate(frame, end, (struct reader){rule->block, row->blocks_end}, cfa, value) &&
               load(frame, end, *value, value);
    default:
        return false;
    }
}

// Nearly all rules are one of these two.
__attribute__((always_inline)) static inline bool
value_of(const struct pw_cfi_frame *frame, const struct pw_cfi_row *row, uintptr_t end,
         const struct pw_cfi_rule *rule, const uintptr_t *cfa, uintptr_t *value) {
    if (rule->how == AT_CFA) {
        return cfa && load(frame, end, *cfa + (uintptr_t)rule->offset, value);
    }
    if (rule->how == REGISTER) {
        *value = register_of(frame, rule->number) + (uintptr_t)rule->offset;
        return true;
    }
    return computed(frame, row, end, rule, cfa, value);
}

// The values come first and are set afterwards: rules speak of the registers as they were.
bool pw_cfi_step(struct pw_cfi_frame *frame, const struct pw_cfi_row *row, uintptr_t end) {
    const uint32_t special = UINT32_C(1) << PW_CFI_STACK | UINT32_C(1) << PW_CFI_RETURN;
    const struct pw_cfi_rule *back = &row->rules[PW_CFI_RETURN];
    uintptr_t cfa, address, values[PW_CFI_RETURN];
    if (!value_of(frame, row, end, &row->cfa, NULL, &cfa) || cfa <= frame->stack || cfa > end ||
        cfa % WORD != 0 || !value_of(frame, row, end, back, &cfa, &address)) {
        return false;
    }
    for (uint32_t left = row->changed & ~special; left; left &= left - 1) {
        unsigned number = (unsigned)__builtin_ctz(left);
        const struct pw_cfi_rule *rule = &row->rules[number];
        values[number] = register_of(frame, number);
        if (rule->how == SAME || value_of(frame, row, end, rule, &cfa, &values[number])) {
            continue;
        }
        if (number == PW_CFI_POINTER && rule->how != LOST) {
            return false;
        }
        values[number] = 0;
    }
    for (uint32_t left = row->changed & ~special; left; left &= left - 1) {
        unsigned number = (unsigned)__builtin_ctz(left);
        *(number == PW_CFI_POINTER ? &frame->pointer : &frame->others[number]) = values[number];
    }
    frame->address = address;
    frame->stack = cfa;
    frame->is_exact = row->is_signal;
    return true;
}

bool pw_cfi_is_first(const struct pw_cfi_row *row) {
    return row->rules[PW_CFI_RETURN].how == LOST;
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

#else

bool pw_cfi_find(const struct pw_cfi_tables *tables, const struct pw_cfi_frame *frame,
                 struct pw_cfi_row *row) {
    (void)tables, (void)frame, (void)row;
    return false;
}

bool pw_cfi_read(const struct pw_cfi_tables *tables, const unsigned char *entry, uintptr_t function,
                 const struct pw_cfi_frame *frame, struct pw_cfi_row *row) {
    (void)tables, (void)entry, (void)function, (void)frame, (void)row;
    return false;
}

bool pw_cfi_read_code(const unsigned char *code, size_t size, struct pw_cfi_row *row) {
    (void)code, (void)size, (void)row;
    return false;
}

bool pw_cfi_step(struct pw_cfi_frame *frame, const struct pw_cfi_row *row, uintptr_t end) {
    (void)frame, (void)row, (void)end;
    return false;
}

bool pw_cfi_is_first(const struct pw_cfi_row *row) {
    (void)row;
    return false;
}

bool pw_cfi_step_by_pointer(struct pw_cfi_frame *frame, uintptr_t end) {
    (void)frame, (void)end;
    return false;
}

#endif
