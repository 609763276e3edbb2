// SPDX-License-Identifier: MIT
//
// The module: options, who may switch, phpinfo() and pagewise_status().
#include "php_pagewise.h"

#include "ext/standard/info.h"
#include "php_ini.h"

#include <pagewise.h>

static const struct pw_php_mode *const modes[] = {&pw_php_transaction, &pw_php_region,
                                                  &pw_php_pass_through, &pw_php_foreign};

#define MODES (sizeof modes / sizeof *modes)

// --- options -------------------------------------------------------------------------
//
// They say what the heap is made like when PHP starts. A php-fpm pool and mod_php set theirs when
// it is there: FAILURE refuses them, and the options stay what the heap is.

static bool has_started(int stage) {
    return stage != ZEND_INI_STAGE_STARTUP;
}

static ZEND_INI_MH(take_string) {
    (void)entry;
    (void)mh_arg2;
    (void)mh_arg3;
    if (has_started(stage)) {
        return FAILURE;
    }
    *(char **)mh_arg1 = new_value && ZSTR_LEN(new_value) ? ZSTR_VAL(new_value) : NULL;
    return SUCCESS;
}

static ZEND_INI_MH(take_flag) {
    (void)entry;
    (void)mh_arg2;
    (void)mh_arg3;
    if (has_started(stage)) {
        return FAILURE;
    }
    *(bool *)mh_arg1 = new_value && zend_ini_parse_bool(new_value);
    return SUCCESS;
}

static ZEND_INI_MH(take_size) {
    (void)mh_arg2;
    (void)mh_arg3;
    if (has_started(stage)) {
        return FAILURE;
    }
    *(zend_long *)mh_arg1 = new_value ? zend_ini_parse_quantity_warn(new_value, entry->name) : 0;
    return SUCCESS;
}

PHP_INI_BEGIN()
ZEND_INI_ENTRY1("pagewise.mode", "transaction", PHP_INI_SYSTEM, take_string, &pw_php.mode_name)
ZEND_INI_ENTRY1("pagewise.huge_pages", "0", PHP_INI_SYSTEM, take_flag, &pw_php.huge_pages)
ZEND_INI_ENTRY1("pagewise.segment_size", "0", PHP_INI_SYSTEM, take_size, &pw_php.segment_size)
ZEND_INI_ENTRY1("pagewise.return_memory", "0", PHP_INI_SYSTEM, take_flag, &pw_php.return_memory)
ZEND_INI_ENTRY1("pagewise.checked", "0", PHP_INI_SYSTEM, take_flag, &pw_php.checked)
ZEND_INI_ENTRY1("pagewise.malloc", "", PHP_INI_SYSTEM, take_string, &pw_php.malloc_library)
ZEND_INI_ENTRY1("pagewise.trust_version", "", PHP_INI_SYSTEM, take_string, &pw_php.trusted_version)
PHP_INI_END()

// --- may we? -------------------------------------------------------------------------

// Null: "off".
static bool choose_mode(const struct pw_php_mode **mode) {
    const char *variable = getenv("PAGEWISE_PHP_MODE");
    bool is_set = variable && *variable;
    const char *name = is_set ? variable : pw_php.mode_name;
    const char *option = is_set ? "PAGEWISE_PHP_MODE, in the environment," : "pagewise.mode";
    *mode = NULL;
    if (!name || !strcmp(name, "off")) {
        snprintf(pw_php.reason, sizeof pw_php.reason, "%s is off", option);
        return true;
    }
    for (size_t i = 0; i < MODES; i++) {
        if (!strcmp(name, modes[i]->name)) {
            *mode = modes[i];
            return true;
        }
    }
    pw_php_log("%s is '%s', not transaction, region, pass-through, malloc or off. PHP keeps its "
               "own allocator",
               option, name);
    return false;
}

static bool options_are_for(const struct pw_php_mode *mode) {
    if (mode == &pw_php_transaction || (!pw_php.segment_size && !pw_php.checked)) {
        return true;
    }
    pw_php_log("pagewise.segment_size and pagewise.checked are not for mode %s, but for "
               "transaction. PHP keeps its own allocator",
               mode->name);
    return false;
}

static const int versions[] = {PW_PHP_VERSIONS}; // first, last, first, last

#define VERSIONS (sizeof versions / sizeof *versions)

// As "8.2.35 to 8.2.36, 8.4.28 to 8.4.28".
static void name_versions(char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < VERSIONS && used < size; i += 2) {
        int first = versions[i], last = versions[i + 1];
        used += (size_t)snprintf(text + used, size - used, "%s%d.%d.%d to %d.%d.%d", i ? ", " : "",
                                 first / 10000, first / 100 % 100, first % 100, last / 10000,
                                 last / 100 % 100, last % 100);
    }
}

// The version of the PHP that runs, which need not be the one whose headers we were built with.
static bool version_is_known(void) {
    zval *number = zend_get_constant_str(ZEND_STRL("PHP_VERSION_ID"));
    zval *text = zend_get_constant_str(ZEND_STRL("PHP_VERSION"));
    zend_long version = number && Z_TYPE_P(number) == IS_LONG ? Z_LVAL_P(number) : 0;
    const char *name =
        text && Z_TYPE_P(text) == IS_STRING ? Z_STRVAL_P(text) : "of an unknown version";
    for (size_t i = 0; i < VERSIONS; i += 2) {
        if (version >= versions[i] && version <= versions[i + 1]) {
            return true;
        }
    }
    if (pw_php.trusted_version && !strcmp(pw_php.trusted_version, name)) {
        return true;
    }
    char known[128];
    name_versions(known, sizeof known);
    pw_php_log("PHP %s is not one that this extension knows (%s). PHP keeps its own allocator; "
               "pagewise.trust_version=%s tries it all the same",
               name, known, name);
    return false;
}

static bool may_switch(int module_type) {
#ifdef ZTS
    pw_php_log("PHP was built with ZTS, which this extension does not support. PHP keeps its own "
               "allocator");
    return false;
#endif
    if (module_type != MODULE_PERSISTENT) {
        pw_php_log("loaded by dl(), in the middle of a request. PHP keeps its own allocator; put "
                   "extension=pagewise.so into php.ini");
        return false;
    }
    if (zend_mm_is_custom_heap(zend_mm_get_heap())) {
        pw_php_log("PHP's allocator has been replaced already (USE_ZEND_ALLOC=0, or another "
                   "extension). Nothing is changed");
        return false;
    }
    if (getenv("ZEND_MM_MAX_ALLOCS")) {
        pw_php_log("ZEND_MM_MAX_ALLOCS is set, which is for PHP's own allocator. PHP keeps it");
        return false;
    }
    return version_is_known();
}

static void switch_heap(int module_type) {
    const struct pw_php_mode *mode;
    if (!choose_mode(&mode) || !mode || !may_switch(module_type) || !options_are_for(mode) ||
        !mode->start()) {
        return;
    }
    pw_php.mode = mode;
    if (!pw_php_hook()) {
        pw_php.mode = NULL;
        return;
    }
    pw_php_take_over_limit();
    pw_php_take_over_ffi();
}

// --- what users see ------------------------------------------------------------------

static void add_statistics(zval *array) {
    struct pw_heap_statistics now;
    pw_php.mode->statistics(&now);
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"live_blocks", now.live_blocks},       {"live_bytes", now.live_bytes},
        {"free_bytes", now.free_bytes},         {"empty_segment_bytes", now.empty_segment_bytes},
        {"fresh_bytes", now.fresh_bytes},       {"segment_bytes", now.segment_bytes},
        {"mapped_bytes", now.mapped_bytes},     {"bookkeeping_bytes", now.bookkeeping_bytes},
        {"returned_bytes", now.returned_bytes},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        add_assoc_long(array, fields[i].name, (zend_long)fields[i].value);
    }
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(status_arguments, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

static PHP_FUNCTION(pagewise_status) {
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    add_assoc_string(return_value, "mode", pw_php.mode ? pw_php.mode->name : "off");
    if (!pw_php.mode) {
        add_assoc_string(return_value, "reason", pw_php.reason);
        return;
    }
    add_assoc_bool(return_value, "huge_pages", pw_php.huge_pages);
    add_assoc_bool(return_value, "checked", pw_php.checked);
    add_assoc_long(return_value, "requests", (zend_long)pw_php.transactions);
    if (pw_php.mode->statistics) {
        add_statistics(return_value);
    }
}

static PHP_MINFO_FUNCTION(pagewise) {
    (void)zend_module;
    char number[32];
    php_info_print_table_start();
    php_info_print_table_row(2, "Pagewise", PAGEWISE_VERSION);
    php_info_print_table_row(2, "Requests on",
                             pw_php.mode ? pw_php.mode->text : "PHP's own allocator");
    if (pw_php.mode) {
        snprintf(number, sizeof number, "%" PRIu64, pw_php.transactions);
        php_info_print_table_row(2, "Requests of this process", number);
    } else {
        php_info_print_table_row(2, "Why", pw_php.reason);
    }
    php_info_print_table_end();
    DISPLAY_INI_ENTRIES();
}

// --- the module ----------------------------------------------------------------------

static PHP_MINIT_FUNCTION(pagewise) {
    pw_php_bury();
    REGISTER_INI_ENTRIES();
    switch_heap(type);
    if (pw_php.mode) {
        pw_php_register_end(module_number);
    }
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(pagewise) {
    (void)type;
    if (pw_php.mode) {
        pw_php_give_back_dl();
        pw_php_give_back_limit();
        pw_php_unhook();
    }
    UNREGISTER_INI_ENTRIES();
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(pagewise) {
    (void)type;
    (void)module_number;
    if (pw_php.mode) {
        pw_php_prepare_end();
    }
    return SUCCESS;
}

static const zend_function_entry functions[] = {PHP_FE(pagewise_status, status_arguments)
                                                    PHP_FE_END};

// What of it is read is read by PHP, as ZEND_GET_MODULE gives it out.
static zend_module_entry pagewise_module_entry = {
    STANDARD_MODULE_HEADER,
    "pagewise",
    functions,
    PHP_MINIT(pagewise),
    PHP_MSHUTDOWN(pagewise),
    NULL,
    PHP_RSHUTDOWN(pagewise),
    PHP_MINFO(pagewise),
    PAGEWISE_VERSION,
    STANDARD_MODULE_PROPERTIES,
};

ZEND_GET_MODULE(pagewise)
