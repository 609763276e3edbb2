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

// As PHP's own.
#define HARD_LIMIT_STATUS    137
#define OUT_OF_MEMORY_STATUS 1
#define MOST_BEYOND          ((size_t)1 << 30)

// memory_limit for pw_heap_set_limit: 0 is none.
static size_t limit(void) {
    return PG(memory_limit) > 0 ? (size_t)PG(memory_limit) : 0;
}

void pw_php_limit_request(void) {
    pw_php.mode->set_limit(limit());
}

// --- at the limit --------------------------------------------------------------------

// As PHP's own heap has it: without a limit of its user's it has this one.
static size_t own_limit(void) {
    return limit() ? limit() : (size_t)ZEND_LONG_MAX;
}

// Without a percentage twice the limit, and no more than MOST_BEYOND above it.
static size_t hard_limit(void) {
    zend_long percent = zend_ini_long(ZEND_STRL("memory_hard_limit_percent"), 0);
    size_t own = own_limit(), bytes;
    if (percent < 100) {
        bytes = own + MIN(own, MOST_BEYOND);
    } else if (__builtin_mul_overflow(own / 100, (size_t)percent, &bytes)) {
        return (size_t)ZEND_LONG_MAX;
    } else {
        bytes += own % 100 * (size_t)percent / 100;
    }
    return MIN(bytes, (size_t)ZEND_LONG_MAX);
}

static void ZEND_COLD record_error(size_t size) {
    if (EG(delayed_oom).state == ZEND_OOM_STATE_NONE) {
        zend_mm_delayed_error_or_panic(
            true, "Allowed memory size of %zu bytes exhausted (tried to allocate %zu bytes)",
            own_limit(), size);
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

// Where the machine refuses memory PHP's own heap ends the process, also for allocations that are
// marked fallible: who gets NULL for one relies on the recorded error, and goes on with a value
// that is wrong where there is none.
static ZEND_COLD ZEND_NORETURN void out_of_memory(void) {
    fprintf(stderr, "\nmmap() failed: [%d] %s\nOut of memory\n", ENOMEM, strerror(ENOMEM));
    exit(OUT_OF_MEMORY_STATUS);
}

// True: with a limit that is higher by what this allocation needs, or by a chunk of PHP's own heap,
// and the next one that passes it asks again. What runs after the error has room in that chunk.
bool pw_php_on_limit(struct pw_heap *heap, size_t needed, void *context) {
    (void)heap;
    (void)context;
    size_t in_use = pw_php.mode->used(true), size = pw_php.requested ? pw_php.requested : needed;
    record_error(size);
    if (zend_mm_is_fallible()) {
        pw_php.limited = true;
        return false;
    }
    if (in_use > hard_limit() || needed > hard_limit() - in_use) {
        end_process(size);
    }
    size_t more = hard_limit() - in_use;
    pw_php.mode->set_limit(in_use + MAX(needed, MIN(more, PW_PHP_CHUNK)));
    return true;
}

void *pw_php_refused(size_t size) {
    // What is too large for any heap was refused without a look at the limit.
    bool fits = size <= own_limit() && pw_php.mode->used(true) <= own_limit() - size;
    if (!pw_php.limited && (fits || pw_php_on_limit(NULL, size, NULL))) {
        out_of_memory();
    }
    pw_php.limited = false;
    return NULL;
}

// --- memory_limit --------------------------------------------------------------------

// PHP's own heap has a chunk in use from the start, and refuses less than that.
static size_t lowest_limit(void) {
    return MAX(pw_php.mode->used(true), PW_PHP_CHUNK);
}

// PHP's own heap takes back pages of blocks above 3 KB as they are freed. With ours, segments
// without a block are not to be the reason why a script's limit is refused.
static bool is_possible(size_t limit, int stage) {
    bool is_script = stage == ZEND_INI_STAGE_RUNTIME || stage == ZEND_INI_STAGE_HTACCESS;
    if (is_script && limit >= PW_PHP_CHUNK && limit < lowest_limit() && pw_php.mode->reclaim) {
        pw_php.mode->reclaim();
    }
    return limit >= lowest_limit();
}

static ZEND_INI_MH(change_memory_limit) {
    size_t value =
        new_value ? zend_ini_parse_uquantity_warn(new_value, entry->name) : (size_t)1 << 30;
    bool possible = is_possible(value, stage);
    if (!possible && stage != ZEND_INI_STAGE_DEACTIVATE) {
        zend_error(E_WARNING,
                   "Failed to set memory limit to %zd bytes (Current memory usage is %zd bytes)",
                   value, lowest_limit());
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

// In PHP's own chunks, at least one: programs compare it with figures that they know from there.
static size_t in_chunks(size_t bytes) {
    bool own = pw_php.mode == &pw_php_pass_through;
    return own ? bytes : (MAX(bytes, 1) + PW_PHP_CHUNK - 1) / PW_PHP_CHUNK * PW_PHP_CHUNK;
}

static ZEND_NAMED_FUNCTION(memory_get_usage) {
    bool real = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
    Z_PARAM_OPTIONAL
    Z_PARAM_BOOL(real)
    ZEND_PARSE_PARAMETERS_END();
    size_t bytes = pw_php.mode->used(real);
    RETURN_LONG((zend_long)(real ? in_chunks(bytes) : bytes));
}

static ZEND_NAMED_FUNCTION(memory_get_peak_usage) {
    bool real = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
    Z_PARAM_OPTIONAL
    Z_PARAM_BOOL(real)
    ZEND_PARSE_PARAMETERS_END();
    size_t bytes = pw_php.mode->peak(real);
    RETURN_LONG((zend_long)(real ? in_chunks(bytes) : bytes));
}

static ZEND_NAMED_FUNCTION(memory_reset_peak_usage) {
    ZEND_PARSE_PARAMETERS_NONE();
    pw_php.mode->reset_peak();
}

static ZEND_NAMED_FUNCTION(gc_mem_caches) {
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(pw_php.mode->reclaim ? (zend_long)pw_php.mode->reclaim() : 0);
}

static struct {
    const char *name;
    zif_handler own, before;
} functions[] = {
    {"memory_get_usage", memory_get_usage, NULL},
    {"memory_get_peak_usage", memory_get_peak_usage, NULL},
    {"memory_reset_peak_usage", memory_reset_peak_usage, NULL},
    {"gc_mem_caches", gc_mem_caches, NULL},
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
