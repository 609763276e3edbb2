// SPDX-License-Identifier: MIT
//
// PHP's fast shutdown. At the end of a request PHP leaves variables, functions and classes to the
// heap's own end instead of destroying each, but for heaps with custom handlers (is_zend_mm()).
// That costs time, and stack: destroying a list of 300,000 nodes overflows it. Ours has free-all
// too, so we do the same, at the same place (shutdown_executor in Zend/zend_execute_API.c).
//
// PHP first closes the request's resources, the newest one first. Ours is the newest: it does what
// PHP would do with its own heap. PHP then finds nothing left to destroy, and nothing to close but
// what 8.2 leaves open where a closing ends by exit or an error.
#include "php_pagewise.h"

// PHP goes on below the place where ours was. If a closing has opened another resource, PHP may
// have ordered its list anew: then its end is below that place, and old copies lie behind it. This
// is for PHP's loop around ours; the room made below keeps its loop inside ours from the same.
static void clear_behind_the_end(HashTable *list) {
    for (uint32_t i = list->nNumUsed; i < list->nTableSize; i++) {
        ZVAL_UNDEF(ZEND_HASH_ELEMENT(list, i));
    }
}

// Closes all other resources: PHP catches in there what their user-space functions end by. Then it
// frees what objects hold, and if a destructor is still to be called it leaves by an error. Each
// such error has an object behind it that is not tried again.
static void close_and_free(void) {
    volatile bool is_done = false;
    zend_try {
        zend_shutdown_executor_values(true);
        is_done = true;
    }
    zend_end_try();
    for (volatile uint32_t left = EG(objects_store).top; !is_done && left > 0; left--) {
        zend_try {
            zend_objects_store_free_object_storage(&EG(objects_store), true);
            is_done = true;
        }
        zend_end_try();
    }
}

static void forget_variables(zend_op_array *function) {
    if (ZEND_MAP_PTR(function->static_variables_ptr)) {
        ZEND_MAP_PTR_SET(function->static_variables_ptr, NULL);
    }
}

#if PHP_VERSION_ID >= 80400
static void forget_variables_of_hooks(zend_class_entry *class) {
    zend_property_info *property;
    ZEND_HASH_MAP_FOREACH_PTR(&class->properties_info, property) {
        for (int i = 0; property->hooks && i < ZEND_PROPERTY_HOOK_COUNT; i++) {
            if (property->hooks[i] && property->hooks[i]->type == ZEND_USER_FUNCTION) {
                forget_variables(&property->hooks[i]->op_array);
            }
        }
    }
    ZEND_HASH_FOREACH_END();
}
#else
static void forget_variables_of_hooks(zend_class_entry *class) {
    (void)class;
}
#endif

static void forget_statics_of_class(zend_class_entry *class) {
    if (class->default_static_members_count && ZEND_MAP_PTR(class->static_members_table)) {
        ZEND_MAP_PTR_SET(class->static_members_table, NULL);
    }
    forget_variables_of_hooks(class);
    zend_function *method;
    ZEND_HASH_MAP_FOREACH_PTR(&class->function_table, method) {
        if (method->type == ZEND_USER_FUNCTION) {
            forget_variables(&method->op_array);
        }
    }
    ZEND_HASH_FOREACH_END();
}

// What opcache has preloaded stays, and PHP will come to it. It destroys static properties and
// variables, however deep, and sets what points to them to NULL: here without destroying.
static void forget_statics(void) {
    zend_function *function;
    ZEND_HASH_MAP_REVERSE_FOREACH_PTR(EG(function_table), function) {
        if (function->type == ZEND_INTERNAL_FUNCTION) {
            break;
        }
        forget_variables(&function->op_array);
    }
    ZEND_HASH_FOREACH_END();
    zval *element;
    ZEND_HASH_MAP_REVERSE_FOREACH_VAL(EG(class_table), element) {
        zend_class_entry *class = Z_PTR_P(element);
        if (class->type != ZEND_INTERNAL_CLASS) {
            forget_statics_of_class(class);
        } else if (Z_TYPE_P(element) != IS_ALIAS_PTR) { // 8.4 lets PHP code name an internal class
            break;
        }
    }
    ZEND_HASH_FOREACH_END();
}

// Of lazy objects that were made after the destructors were called. PHP would destroy what they
// stand for, when no function of PHP code can be called any more.
static void forget_lazy_objects(void) {
#if PHP_VERSION_ID >= 80400
    EG(lazy_objects_store).infos.pDestructor = NULL;
#endif
}

static void shut_down_fast(zend_resource *resource) {
    (void)resource;
    // Not active: PHP is beyond this place. A resource that is newer than ours ended its closing by
    // exit or an error, so that PHP did not come to ours, and has destroyed all one by one.
    // After dl(), what was registered must be taken back.
    if (!EG(active) || EG(full_tables_cleanup)) {
        return;
    }
    close_and_free();
    forget_lazy_objects();
    clear_behind_the_end(&EG(regular_list));
    zend_hash_init(&EG(symbol_table), 8, NULL, ZVAL_PTR_DTOR, 0);
    zend_hash_init(&EG(included_files), 8, NULL, NULL, 0);
    zend_hash_discard(EG(function_table), EG(persistent_functions_count));
    zend_hash_discard(EG(class_table), EG(persistent_classes_count));
    forget_statics();
    ZVAL_UNDEF(&EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_exception_handler));
    zend_stack_init(&EG(user_error_handlers_error_reporting), sizeof(int));
    zend_stack_init(&EG(user_error_handlers), sizeof(zval));
    zend_stack_init(&EG(user_exception_handlers), sizeof(zval));
    EG(symtable_cache_ptr) = EG(symtable_cache);
}

void pw_php_register_end(int module_number) {
    pw_php.end_resource = zend_register_list_destructors_ex(
        shut_down_fast, NULL, "pagewise end of request", module_number);
}

// Of PHP's list, in slots. 18 KB are the most that it takes when ours has been added.
enum { SMALL_LIST = 256, ROOM = 32 };

// A name in the place of a number keeps it out of get_resources(), and leaves the numbers to
// others. It makes a hash of a packed list.
static void add_by_name(HashTable *list) {
    zend_resource *resource = emalloc(sizeof *resource);
    *resource = (zend_resource){.type = pw_php.end_resource};
    GC_SET_REFCOUNT(resource, 1);
    GC_TYPE_INFO(resource) = GC_RESOURCE;
    zval value;
    ZVAL_RES(&value, resource);
    zend_hash_str_add_new(list, ZEND_STRL("pagewise, end of request"), &value);
}

// A hash takes more than twice the memory of a packed list, which for a long one may be beyond
// memory_limit. So ours has a number in such a list, and what closings open has the numbers behind.
//
// PHP orders a hash anew where it is full and has gaps, and 8.2 then closes old copies of what may
// be freed. In a packed list it would not: room in the hash is for what closings open.
void pw_php_prepare_end(void) {
    if (!pw_php.mode->free_all || pw_php.end_resource <= 0) {
        return;
    }
    HashTable *list = &EG(regular_list);
    bool is_small = list->nTableSize <= SMALL_LIST;
    if (!is_small && HT_IS_PACKED(list)) {
        zend_register_resource(NULL, pw_php.end_resource);
        return;
    }
    add_by_name(list);
    if (is_small) {
        zend_hash_extend(list, list->nNumUsed + ROOM, false);
    }
}
