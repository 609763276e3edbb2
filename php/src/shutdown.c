// SPDX-License-Identifier: MIT
//
// PHP's fast shutdown. At the end of a request PHP leaves variables, functions and classes to the
// heap's own end instead of destroying each, but for heaps with custom handlers (is_zend_mm()).
// That costs time, and stack: destroying a list of 300,000 nodes overflows it. Ours has free-all
// too, so we do the same, at the same place: where PHP has closed the request's resources and says
// that no PHP function is called from here on (shutdown_executor in Zend/zend_execute_API.c). We
// are called there as the last one of these resources.
#include "php_pagewise.h"

static void leave_to_free_all(zend_resource *resource) {
    (void)resource;
    // opcache's preloading closes the list in the middle of a request. After dl(), what was
    // registered must be taken back.
    if (!pw_php.request_ends || EG(full_tables_cleanup)) {
        return;
    }
    EG(active) = 0;
    zend_objects_store_free_object_storage(&EG(objects_store), true);
    zend_hash_init(&EG(symbol_table), 8, NULL, ZVAL_PTR_DTOR, 0);
    zend_hash_init(&EG(included_files), 8, NULL, NULL, 0);
    zend_hash_discard(EG(zend_constants), EG(persistent_constants_count));
    zend_hash_discard(EG(function_table), EG(persistent_functions_count));
    zend_hash_discard(EG(class_table), EG(persistent_classes_count));
    ZVAL_UNDEF(&EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_exception_handler));
    zend_stack_init(&EG(user_error_handlers_error_reporting), sizeof(int));
    zend_stack_init(&EG(user_error_handlers), sizeof(zval));
    zend_stack_init(&EG(user_exception_handlers), sizeof(zval));
    EG(symtable_cache_ptr) = EG(symtable_cache);
}

void pw_php_register_end(int module_number) {
    pw_php.end_resource = zend_register_list_destructors_ex(
        leave_to_free_all, NULL, "pagewise end of request", module_number);
}

// The list of resources is closed from its end: the first one in it is the last. It must be there
// before any other, because the list may be ordered anew as it grows. A name in the place of a
// number keeps it out of get_resources(), and leaves the numbers to others.
void pw_php_prepare_end(void) {
    HashTable *list = &EG(regular_list);
    pw_php.request_ends = false;
    if (!pw_php.mode->free_all || pw_php.end_resource <= 0 || list->nNumUsed > 0) {
        return; // PHP's slow shutdown is correct as well
    }
    zend_resource *resource = emalloc(sizeof *resource);
    *resource = (zend_resource){.type = pw_php.end_resource};
    GC_SET_REFCOUNT(resource, 1);
    GC_TYPE_INFO(resource) = GC_RESOURCE;
    zval value;
    ZVAL_RES(&value, resource);
    zend_hash_str_add_new(list, ZEND_STRL("pagewise, end of request"), &value);
}
