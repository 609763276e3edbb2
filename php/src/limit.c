// SPDX-License-Identifier: MIT
//
// memory_limit and the functions that speak of memory. PHP answers them from fields of its own
// heap, which stay as they are when a heap has custom handlers.
//
// What happens at the limit is what PHP 8.2.35 and later do (Zend/zend_alloc.c): the error is
// recorded and raised by the interpreter at its next chance; until then allocations succeed, up to
// memory_hard_limit_percent, except those that are marked fallible, which get NULL.
#include "php_pagewise.h"

#include "zend_extensions.h"
#include "zend_ini.h"

#include <unistd.h>

#define HARD_LIMIT_STATUS 137 // as PHP's own
#define OWN_CHUNK         ((size_t)2 << 20)

// memory_limit for pw_heap_set_limit: 0 is none.
static size_t limit(void) {
    return PG(memory_limit) > 0 ? (size_t)PG(memory_limit) : 0;
}

void pw_php_limit_request(void) {
    pw_php.mode->set_limit(limit());
}

// --- at the limit --------------------------------------------------------------------

static size_t hard_limit(void) {
    zend_long percent = zend_ini_long(ZEND_STRL("memory_hard_limit_percent"), 0);
    size_t bytes;
    if (percent < 100 || __builtin_mul_overflow(limit() / 100, (size_t)percent, &bytes)) {
        return SIZE_MAX;
    }
    return bytes + limit() % 100 * (size_t)percent / 100;
}

static void ZEND_COLD record_error(size_t size) {
    if (EG(delayed_oom).state == ZEND_OOM_STATE_NONE) {
        zend_mm_delayed_error_or_panic(
            true, "Allowed memory size of %zu bytes exhausted (tried to allocate %zu bytes)",
            limit(), size);
    }
}

static ZEND_COLD ZEND_NORETURN void end_process(size_t size) {
    bool runs = zend_is_executing();
    zend_string *file = runs ? zend_get_executed_filename_ex() : zend_get_compiled_filename();
    uint32_t line = runs ? zend_get_executed_lineno() : (uint32_t)zend_get_compiled_lineno();
    fprintf(
        stderr,
        "Hard memory limit of %zu bytes exhausted (tried to allocate %zu bytes) in %s on line %u\n",
        hard_limit(), size, file ? ZSTR_VAL(file) : "Unknown", line);
    _exit(HARD_LIMIT_STATUS);
}

// True: with a limit that is higher by what this allocation needs, or by a chunk of PHP's own heap,
// and the next one that passes it asks again. What runs after the error has room in that chunk.
bool pw_php_on_limit(struct pw_heap *heap, size_t needed, void *context) {
    (void)heap;
    (void)context;
    size_t in_use = pw_php.mode->used(true), size = pw_php.requested ? pw_php.requested : needed;
    record_error(size);
    if (zend_mm_is_fallible()) {
        return false;
    }
    if (in_use > hard_limit() || needed > hard_limit() - in_use) {
        end_process(size);
    }
    size_t more = hard_limit() - in_use;
    pw_php.mode->set_limit(in_use + MAX(needed, MIN(more, OWN_CHUNK)));
    return true;
}

void *pw_php_refused(size_t size) {
    if (limit() && size > limit()) {
        record_error(size);
    }
    if (!zend_mm_is_fallible()) {
        fputs("Out of memory\n", stderr);
        exit(1);
    }
    return NULL;
}

// --- memory_limit --------------------------------------------------------------------

static ZEND_INI_MH(change_memory_limit) {
    size_t value =
        new_value ? zend_ini_parse_uquantity_warn(new_value, entry->name) : (size_t)1 << 30;
    // PHP's own heap has a chunk in use from the start, and refuses less than that.
    size_t in_use = MAX(pw_php.mode->used(true), OWN_CHUNK);
    bool possible = value >= in_use;
    if (!possible && stage != ZEND_INI_STAGE_DEACTIVATE) {
        zend_error(E_WARNING,
                   "Failed to set memory limit to %zd bytes (Current memory usage is %zd bytes)",
                   value, in_use);
        return FAILURE;
    }
    PG(memory_limit) = (zend_long)value;
    if (possible) {
        pw_php.mode->set_limit(limit());
    }
    return SUCCESS;
}

static zend_ini_entry *memory_limit_entry(void) {
    return zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("memory_limit"));
}

// --- the functions -------------------------------------------------------------------

static ZEND_NAMED_FUNCTION(memory_get_usage) {
    bool real = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
    Z_PARAM_OPTIONAL
    Z_PARAM_BOOL(real)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_LONG((zend_long)pw_php.mode->used(real));
}

static ZEND_NAMED_FUNCTION(memory_get_peak_usage) {
    bool real = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
    Z_PARAM_OPTIONAL
    Z_PARAM_BOOL(real)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_LONG((zend_long)pw_php.mode->peak(real));
}

static ZEND_NAMED_FUNCTION(memory_reset_peak_usage) {
    ZEND_PARSE_PARAMETERS_NONE();
    pw_php.mode->reset_peak();
}

static struct {
    const char *name;
    zif_handler own, before;
} functions[] = {
    {"memory_get_usage", memory_get_usage, NULL},
    {"memory_get_peak_usage", memory_get_peak_usage, NULL},
    {"memory_reset_peak_usage", memory_reset_peak_usage, NULL},
};

#define FUNCTIONS (sizeof functions / sizeof *functions)

static zend_internal_function *function_named(const char *name) {
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
    return function && function->type == ZEND_INTERNAL_FUNCTION ? &function->internal_function
                                                                : NULL;
}

void pw_php_take_over_limit(void) {
    for (size_t i = 0; i < FUNCTIONS; i++) {
        zend_internal_function *function = function_named(functions[i].name);
        if (function) { // not there: disable_functions
            functions[i].before = function->handler;
            function->handler = functions[i].own;
        }
    }
    zend_ini_entry *entry = memory_limit_entry();
    if (entry) {
        pw_php.change_memory_limit = entry->on_modify;
        entry->on_modify = change_memory_limit;
    }
    pw_php_limit_request();
}

void pw_php_give_back_limit(void) {
    for (size_t i = 0; i < FUNCTIONS; i++) {
        zend_internal_function *function = function_named(functions[i].name);
        if (function && functions[i].before) {
            function->handler = functions[i].before;
        }
    }
    zend_ini_entry *entry = memory_limit_entry();
    if (entry && pw_php.change_memory_limit) {
        entry->on_modify = pw_php.change_memory_limit;
    }
}
