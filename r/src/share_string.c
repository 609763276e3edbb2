// SPDX-License-Identifier: MIT
//
// Shared character vectors. R keeps every string once, in a pool of the process, so that its
// strings cannot be shared as they are. The part holds a table of the distinct strings and a code
// for each element; the codes stay shared, and a process puts a distinct string into its pool when
// it first asks for an element that has it. Code that wants R's pointers, or writes, gets them all
// at once.
#include "share_string.h"

#include "share_map.h"
#include "share_send.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>

// A part: the number of distinct strings, a code for each element (0: NA, else 1 + the number of a
// distinct string), and on 8 bytes the offsets of the strings and of their end, their encodings,
// and their bytes.
struct table {
    uint64_t distinct;
    const uint32_t *codes;
    const uint64_t *offsets;
    const uint8_t *encodings;
    const char *text;
    uint64_t text_size;
};

#define HEADER     sizeof(uint64_t)
#define ALIGN(n)   (((n) + 7) & ~(uint64_t)7)
#define MOST_CODES (UINT32_MAX - 1)

// An encoding of ours: UTF-8 here, and the session's own, without a mark, where it was shared. So
// it is in a session of UTF-8 again.
#define NATIVE_AS_UTF8 0x80

static R_altrep_class_t string_class;

// False: the sizes contradict each other.
static bool read_table(const char *data, const struct pw_shared_part *part, struct table *table) {
    uint64_t size = part->size;
    memcpy(&table->distinct, data, HEADER);
    if (part->length > size / 4 || table->distinct > size / 8) {
        return false;
    }
    uint64_t offsets = HEADER + ALIGN(part->length * sizeof *table->codes);
    uint64_t encodings = offsets + (table->distinct + 1) * sizeof *table->offsets;
    uint64_t text = encodings + table->distinct;
    if (text > size) {
        return false;
    }
    table->codes = (const uint32_t *)(const void *)(data + HEADER);
    table->offsets = (const uint64_t *)(const void *)(data + offsets);
    table->encodings = (const uint8_t *)(data + encodings);
    table->text = data + text;
    table->text_size = size - text;
    return true;
}

static cetype_t encoding_of(uint8_t written) {
    if (written == NATIVE_AS_UTF8) {
        return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? CE_NATIVE : CE_UTF8;
    }
    return (cetype_t)written;
}

// Distinct string `code` - 1. What the table does not hold is NA: an error may not be raised here.
static SEXP make_string(const struct table *table, uint32_t code) {
    if (code == 0 || code > table->distinct) {
        return NA_STRING;
    }
    uint64_t start = table->offsets[code - 1], end = table->offsets[code];
    const char *text = table->text + start;
    cetype_t encoding = encoding_of(table->encodings[code - 1]);
    bool known = encoding == CE_NATIVE || encoding == CE_UTF8 || encoding == CE_LATIN1 ||
                 encoding == CE_BYTES;
    if (!known || start > end || end > table->text_size || end - start > INT_MAX ||
        memchr(text, 0, end - start)) {
        return NA_STRING;
    }
    return Rf_mkCharLenCE(text, (int)(end - start), encoding);
}

// --- writing
// --------------------------------------------------------------------------------------

static bool is_ascii(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] > 127) {
            return false;
        }
    }
    return true;
}

// NULL: it is no text in the session's encoding. R puts "<e9>" for what it cannot translate; that
// does not lead back to the same bytes.
static const char *in_utf8(SEXP string) {
    if (mbstowcs(NULL, CHAR(string), 0) == (size_t)-1) {
        return NULL;
    }
    const char *text = Rf_translateCharUTF8(string);
    return strcmp(Rf_reEnc(text, CE_UTF8, CE_NATIVE, 1), CHAR(string)) ? NULL : text;
}

// Strings of the session's own encoding would read otherwise in a session with another one, and so
// become UTF-8. What is no text in it stays the bytes that it is.
static const char *portable(SEXP string, size_t *size, uint8_t *encoding) {
    *encoding = (uint8_t)Rf_getCharCE(string);
    *size = (size_t)LENGTH(string);
    if (*encoding != CE_NATIVE || is_ascii(CHAR(string), *size)) {
        return CHAR(string);
    }
    const char *text = in_utf8(string);
    if (!text) {
        return CHAR(string);
    }
    *encoding = NATIVE_AS_UTF8;
    *size = strlen(text);
    return text;
}

// The strings are kept from the collector: a vector of another package's ALTREP class may make
// them anew whenever it is asked, and a string that ends gives its address to the next.
struct distinct {
    struct share_map map;
    SEXP strings; // protected
    PROTECT_INDEX protection;
    uint32_t count;
};

#define FIRST_STRINGS 1024
#define GROWTH        4

static uint32_t code_of(struct distinct *distinct, SEXP string) {
    if (string == NA_STRING) {
        return 0;
    }
    PROTECT(string);
    uint32_t code = share_map_put(&distinct->map, string, distinct->count + 1);
    if (code > distinct->count) {
        R_xlen_t room = XLENGTH(distinct->strings);
        if (distinct->count == room) {
            distinct->strings = Rf_xlengthgets(distinct->strings, room * GROWTH);
            REPROTECT(distinct->strings, distinct->protection);
        }
        SET_STRING_ELT(distinct->strings, distinct->count++, string);
    }
    UNPROTECT(1);
    return code;
}

#define BATCH 4096

static enum pw_shared_result write_codes(struct pw_shared *shared, SEXP x,
                                         struct distinct *distinct) {
    uint32_t codes[BATCH];
    R_xlen_t length = XLENGTH(x), at = 0;
    while (at < length) {
        size_t count = 0;
        for (; count < BATCH && at < length; at++) {
            if (distinct->count >= MOST_CODES) {
                Rf_error("a character vector of more than %u distinct strings cannot be shared",
                         MOST_CODES);
            }
            codes[count++] = code_of(distinct, STRING_ELT(x, at));
        }
        if (at == length && count % 2) {
            codes[count++] = 0; // what follows starts on 8 bytes; BATCH is even
        }
        enum pw_shared_result result = pw_shared_write(shared, codes, count * sizeof *codes);
        if (result != PW_SHARED_OK) {
            return result;
        }
    }
    return PW_SHARED_OK;
}

// Offsets, encodings and bytes of the distinct strings.
static enum pw_shared_result write_distinct(struct pw_shared *shared,
                                            const struct distinct *distinct) {
    uint64_t total = 0;
    size_t size;
    uint8_t encoding;
    uint64_t *offsets = (uint64_t *)(void *)R_alloc((size_t)distinct->count + 1, sizeof *offsets);
    uint8_t *encodings = (uint8_t *)R_alloc((size_t)distinct->count + 1, 1);
    for (uint32_t i = 0; i < distinct->count; i++) {
        const void *mark = vmaxget();
        offsets[i] = total;
        portable(STRING_ELT(distinct->strings, i), &size, &encodings[i]);
        total += size;
        vmaxset(mark);
    }
    offsets[distinct->count] = total;
    char *text = R_alloc(total + 1, 1);
    for (uint32_t i = 0; i < distinct->count; i++) {
        const void *mark = vmaxget();
        const char *string = portable(STRING_ELT(distinct->strings, i), &size, &encoding);
        memcpy(text + offsets[i], string, size);
        vmaxset(mark);
    }
    enum pw_shared_result result =
        pw_shared_write(shared, offsets, ((size_t)distinct->count + 1) * sizeof *offsets);
    if (result == PW_SHARED_OK) {
        result = pw_shared_write(shared, encodings, distinct->count);
    }
    if (result == PW_SHARED_OK) {
        result = pw_shared_write(shared, text, total);
    }
    return result;
}

enum pw_shared_result share_string_write(struct pw_shared *shared, SEXP x,
                                         struct pw_shared_part *part) {
    const void *before = vmaxget(); // the tables of this vector end with it
    struct distinct distinct = {.strings = Rf_allocVector(STRSXP, FIRST_STRINGS)};
    uint64_t count = 0, start = pw_shared_next_page(shared);
    PROTECT_WITH_INDEX(distinct.strings, &distinct.protection);
    share_map_start(&distinct.map, (uint64_t)XLENGTH(x));
    // Their number is known only at the end: written over the first bytes then.
    enum pw_shared_result result = pw_shared_write(shared, &count, sizeof count);
    if (result == PW_SHARED_OK) {
        result = write_codes(shared, x, &distinct);
    }
    if (result == PW_SHARED_OK) {
        result = write_distinct(shared, &distinct);
    }
    if (result == PW_SHARED_OK) {
        uint64_t end = shared->size;
        count = distinct.count;
        shared->size = start;
        result = pw_shared_write(shared, &count, sizeof count);
        shared->size = end;
    }
    *part = (struct pw_shared_part){
        .offset = start,
        .size = shared->size - start,
        .length = (uint64_t)XLENGTH(x),
        .kind = STRSXP,
    };
    UNPROTECT(1);
    vmaxset(before);
    return result;
}

// --- vectors
// -------------------------------------------------------------------------------------- data1: the
// view. data2: list(distinct strings made so far, all elements as R keeps them or NULL).

#define MADE     0
#define EXPANDED 1

static SEXP new_string(SEXP pointer, SEXP made) {
    PROTECT(made);
    SEXP parts = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(parts, MADE, made);
    SEXP x = share_new(string_class, STRSXP, pointer, parts);
    UNPROTECT(2);
    return x;
}

SEXP share_string(SEXP pointer) {
    struct table table;
    const struct view *view = view_at(pointer);
    if (!read_table(view->data, &view->part, &table)) {
        share_fail(PW_SHARED_FORGED, NULL);
    }
    return new_string(pointer, R_NilValue);
}

static struct table table_of(SEXP x) {
    struct table table;
    const struct view *view = view_at(R_altrep_data1(x));
    read_table(view->data, &view->part, &table); // was checked when the vector was made
    return table;
}

static SEXP expanded_of(SEXP x) {
    return VECTOR_ELT(R_altrep_data2(x), EXPANDED);
}

SEXP share_string_expanded(SEXP x) {
    return expanded_of(x);
}

SEXP share_string_made(SEXP x) {
    return VECTOR_ELT(R_altrep_data2(x), MADE);
}

// A slot of the empty string has not been made yet; for the empty string itself it makes no odds.
static SEXP string_of_code(SEXP x, const struct table *table, uint32_t code) {
    SEXP made = VECTOR_ELT(R_altrep_data2(x), MADE);
    if (code == 0 || code > table->distinct) {
        return NA_STRING;
    }
    if (made == R_NilValue) {
        made = Rf_allocVector(STRSXP, (R_xlen_t)table->distinct);
        SET_VECTOR_ELT(R_altrep_data2(x), MADE, made);
    }
    SEXP string = STRING_ELT(made, (R_xlen_t)code - 1);
    if (string == R_BlankString) {
        string = make_string(table, code);
        SET_STRING_ELT(made, (R_xlen_t)code - 1, string);
    }
    return string;
}

static SEXP expand(SEXP x) {
    SEXP expanded = expanded_of(x);
    if (expanded != R_NilValue) {
        return expanded;
    }
    struct table table = table_of(x);
    R_xlen_t length = XLENGTH(x);
    expanded = PROTECT(Rf_allocVector(STRSXP, length));
    for (R_xlen_t i = 0; i < length; i++) {
        SET_STRING_ELT(expanded, i, string_of_code(x, &table, table.codes[i]));
    }
    SET_VECTOR_ELT(R_altrep_data2(x), EXPANDED, expanded);
    UNPROTECT(1);
    return expanded;
}

bool share_string_owns(SEXP x) {
    return TYPEOF(x) == STRSXP && R_altrep_inherits(x, string_class);
}

bool share_string_is_changed(SEXP x) {
    SEXP expanded = expanded_of(x);
    if (expanded == R_NilValue) {
        return false;
    }
    struct table table = table_of(x);
    for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
        if (STRING_ELT(expanded, i) != string_of_code(x, &table, table.codes[i])) {
            return true;
        }
    }
    return false;
}

static SEXP copy_of(const struct snapshot *snapshot, const struct pw_shared_part *part) {
    struct table table;
    SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)part->size));
    if (!pw_shared_read(&snapshot->shared, part, RAW(bytes))) {
        share_fail(PW_SHARED_LIMIT, NULL);
    }
    if (!read_table((const char *)RAW(bytes), part, &table)) {
        share_fail(PW_SHARED_FORGED, NULL);
    }
    SEXP x = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)part->length));
    for (R_xlen_t i = 0; i < XLENGTH(x); i++) {
        SET_STRING_ELT(x, i, make_string(&table, table.codes[i]));
    }
    UNPROTECT(2);
    return x;
}

static R_xlen_t method_length(SEXP x) {
    return (R_xlen_t)view_at(R_altrep_data1(x))->part.length;
}

// Asked for each element by much of R: what was made before is returned without looking at the
// table.
static SEXP method_element(SEXP x, R_xlen_t i) {
    SEXP parts = R_altrep_data2(x), expanded = VECTOR_ELT(parts, EXPANDED);
    if (expanded != R_NilValue) {
        return STRING_ELT(expanded, i);
    }
    const char *data = view_at(R_altrep_data1(x))->data;
    uint32_t code = ((const uint32_t *)(const void *)(data + HEADER))[i];
    SEXP made = VECTOR_ELT(parts, MADE);
    if (code > 0 && made != R_NilValue && code <= XLENGTH(made)) {
        SEXP string = STRING_ELT(made, (R_xlen_t)code - 1);
        if (string != R_BlankString) {
            return string;
        }
    }
    struct table table = table_of(x);
    return string_of_code(x, &table, code);
}

static void method_set_element(SEXP x, R_xlen_t i, SEXP value) {
    SET_STRING_ELT(expand(x), i, value);
}

static void *method_dataptr(SEXP x, Rboolean writable) {
    (void)writable;
    return data_of_new(expand(x));
}

static const void *method_dataptr_or_null(SEXP x) {
    SEXP expanded = expanded_of(x);
    return expanded == R_NilValue ? NULL : DATAPTR_RO(expanded);
}

// Codes are never written, so that a copy is one more vector on the same view.
static SEXP method_duplicate(SEXP x, Rboolean deep) {
    (void)deep;
    bool by_value = expanded_of(x) != R_NilValue;
    return by_value ? NULL : new_string(R_altrep_data1(x), VECTOR_ELT(R_altrep_data2(x), MADE));
}

static SEXP method_serialized_state(SEXP x) {
    bool by_handle = share_may_send_handle() && !share_string_is_changed(x);
    return by_handle ? share_handle(string_class, view_at(R_altrep_data1(x))) : NULL;
}

static SEXP method_unserialize(SEXP class, SEXP handle) {
    (void)class;
    struct snapshot *snapshot;
    struct pw_shared_part part;
    bool mapped;
    SEXP pointer = PROTECT(view_of_handle(handle, SHARE_OWN, &snapshot, &part, &mapped));
    if (part.kind != STRSXP) {
        share_fail(PW_SHARED_FORGED, NULL);
    }
    SEXP x = mapped ? share_string(pointer) : copy_of(snapshot, &part);
    UNPROTECT(1);
    return x;
}

static Rboolean method_inspect(SEXP x, int before, int deep, int vector,
                               void (*inspect)(SEXP, int, int, int)) {
    (void)before, (void)deep, (void)vector, (void)inspect;
    struct table table = table_of(x);
    Rprintf(" pagewise shared: %.0f distinct strings%s\n", (double)table.distinct,
            expanded_of(x) == R_NilValue ? "" : ", expanded");
    return TRUE;
}

void share_string_start(void) {
    if (R_SEXP(string_class)) {
        return;
    }
    string_class = R_make_altstring_class("shared_string", "pagewise", NULL);
    share_hide_type(string_class, STRSXP);
    R_set_altrep_Length_method(string_class, method_length);
    R_set_altrep_Duplicate_method(string_class, method_duplicate);
    R_set_altrep_Serialized_state_method(string_class, method_serialized_state);
    R_set_altrep_Unserialize_method(string_class, method_unserialize);
    R_set_altrep_Inspect_method(string_class, method_inspect);
    R_set_altvec_Dataptr_method(string_class, method_dataptr);
    R_set_altvec_Dataptr_or_null_method(string_class, method_dataptr_or_null);
    R_set_altstring_Elt_method(string_class, method_element);
    R_set_altstring_Set_elt_method(string_class, method_set_element);
}
