// SPDX-License-Identifier: MIT
//
// The heap that PHP sees is one of its own (zend_mm_startup) with custom handlers: ours. They are
// exchanged as PHP's life goes on, so that none of them has to ask where it is:
//
//     starting   blocks from before the switch are in use; frees of them go to the heap they are of
//     running    a request: the mode's own functions
//     ended      the SAPI has ended a request: PHP still reads and frees some of its blocks, then
//                all are forgotten (after_the_last); the next allocation is the next request's
//     leaving    our module is shut down, PHP is about to be
#include "php_pagewise.h"

#include "SAPI.h"

static void use_running(void) {
    const struct pw_php_mode *mode = pw_php.mode;
    zend_mm_set_custom_handlers(pw_php.hooked_heap, mode->alloc, mode->free, mode->realloc);
}

// --- starting ------------------------------------------------------------------------

// PHP's own heap knows its blocks, but tells only of the heap that is set.
static bool is_own(void *block) {
    zend_mm_heap *hooked = zend_mm_set_heap(pw_php.own_heap);
    bool own = is_zend_ptr(block);
    zend_mm_set_heap(hooked);
    return own;
}

static void starting_free(void *block) {
    if (block && is_own(block)) {
        _zend_mm_free(pw_php.own_heap, block);
    } else {
        pw_php.mode->free(block);
    }
}

static void *starting_realloc(void *block, size_t size) {
    if (!block || !is_own(block) || pw_php.mode == &pw_php_pass_through) {
        return pw_php.mode->realloc(block, size);
    }
    size_t old_size = _zend_mm_block_size(pw_php.own_heap, block);
    void *moved = pw_php.mode->alloc(size);
    if (moved) {
        memcpy(moved, block, MIN(old_size, size));
        _zend_mm_free(pw_php.own_heap, block);
    }
    return moved;
}

// --- ended ---------------------------------------------------------------------------

static void end_transaction(void) {
    if (pw_php.in_transaction && pw_php.mode->free_all) {
        pw_php.mode->free_all();
    }
    pw_php.in_transaction = false;
}

// What a worker inherits are its parent's pages: writing copies them one by one, also where they
// were huge, and tables lie in the same cache sets in all workers (the paper's section 3.3).
static void renew_after_fork(void) {
    pid_t process = getpid();
    if (process != pw_php.process && pw_php.mode->renew) {
        pw_php.mode->renew();
    }
    pw_php.process = process;
}

static void begin_request(void) {
    if (pw_php.starting) {
        if (pw_php.mode != &pw_php_pass_through) {
            zend_mm_shutdown(pw_php.own_heap, false, true); // as PHP itself does after its start
        }
        pw_php_take_over_dl();
        pw_php.starting = false;
    }
    end_transaction();
    renew_after_fork();
    pw_php.in_transaction = true;
    pw_php.transactions++;
    pw_php_limit_request();
    use_running();
}

static void *ended_alloc(size_t size) {
    begin_request();
    return pw_php.mode->alloc(size);
}

// Blocks of the request that is over, and they are all gone.
static void ended_free(void *block) {
    (void)block;
}

static void *ended_realloc(void *block, size_t size) {
    if (!block) {
        return ended_alloc(size);
    }
    use_running(); // the request goes on, whatever the SAPI said
    return pw_php.mode->realloc(block, size);
}

static void use_ended(void) {
    const struct pw_php_mode *mode = pw_php.mode;
    zend_mm_set_custom_handlers(pw_php.hooked_heap, ended_alloc,
                                mode->free_all ? ended_free : mode->free, ended_realloc);
}

// The last of a request's blocks that PHP reads is its table of interned strings
// (php_request_shutdown in main/main.c). An element of ours at its end tells when it was read: an
// idle worker then holds no memory of its last request. Without it all is freed when the next
// request begins. The handlers are set once more, in case ended_realloc has exchanged them: none of
// the blocks that PHP frees from here on is there any more.
static void after_the_last(zval *element) {
    if (Z_TYPE_P(element) == IS_PTR) {
        end_transaction();
        use_ended();
    } else {
        pw_php.free_interned_string(element);
    }
}

// PHP's start calls deactivate as well. Where PHP has lived before in the same process, flags and
// table are then as that life's last request left them, and the table's memory is gone.
static void watch_for_the_last(void) {
    HashTable *strings = &CG(interned_strings);
    if (pw_php.starting || !(EG(flags) & EG_FLAGS_IN_SHUTDOWN) || strings->pDestructor == NULL) {
        return; // not a request's end
    }
    zval element;
    ZVAL_PTR(&element, &pw_php);
    if (zend_hash_str_add(strings, ZEND_STRL("pagewise, end of request"), &element)) {
        pw_php.free_interned_string = strings->pDestructor;
        strings->pDestructor = after_the_last;
        // Keys are not looked at again: interned ones are never released, and ours is forgotten.
        HT_FLAGS(strings) |= HASH_FLAG_STATIC_KEYS;
    }
}

// False: it bailed out, as the functions of php-fpm and php-cgi do where the client has gone.
static bool sapi_deactivates(int *result) {
    volatile bool returns = true;
    zend_try {
        *result = pw_php.sapi_deactivate ? pw_php.sapi_deactivate() : SUCCESS;
    }
    zend_catch {
        returns = false;
    }
    zend_end_try();
    return returns;
}

// In its shutdown PHP calls this last of all that could allocate: after it, there are frees only.
// That holds for a bailout as well, which PHP catches right behind this call.
static int deactivate(void) {
    int result = SUCCESS;
    bool returns = sapi_deactivates(&result);
    if (pw_php.mode->free_all) {
        watch_for_the_last();
    }
    use_ended();
    if (!returns) {
        zend_bailout();
    }
    return result;
}

// --- leaving -------------------------------------------------------------------------

static void leaving_free(void *block) {
    (void)block; // at last PHP frees the heap's own struct by its handler: not a block of ours
}

static void *leaving_realloc(void *block, size_t size) {
    if (!block) {
        return pw_php.mode->alloc(size);
    }
    return pw_php.mode->realloc(block, size);
}

// --- the switch ----------------------------------------------------------------------

bool pw_php_hook(void) {
    pw_php.own_heap = zend_mm_get_heap();
    pw_php.hooked_heap = zend_mm_startup();
    if (!pw_php.hooked_heap) {
        pw_php_log("no memory for a second heap. PHP keeps its own allocator");
        return false;
    }
    pw_php.starting = pw_php.in_transaction = true;
    pw_php.process = getpid();
    zend_mm_set_custom_handlers(pw_php.hooked_heap, pw_php.mode->alloc, starting_free,
                                starting_realloc);
    zend_mm_set_heap(pw_php.hooked_heap);
    pw_php.sapi_deactivate = sapi_module.deactivate;
    sapi_module.deactivate = deactivate;
    return true;
}

// A server that restarts gracefully (mod_php) ends PHP and starts it anew in the same process. At
// its end PHP could free neither of its heaps: the one had our handlers, the other was not set.
static void forget_heap(zend_mm_heap *heap) {
    zend_mm_set_custom_handlers(heap, NULL, NULL, NULL);
    zend_mm_shutdown(heap, true, true);
}

void pw_php_bury(void) {
    if (pw_php.mode) {
        pw_heap_delete(pw_php.heap);
        pw_region_delete(pw_php.region);
        forget_heap(pw_php.hooked_heap);
        forget_heap(pw_php.own_heap);
    }
    pw_php = (struct pw_php){0};
}

void pw_php_unhook(void) {
    sapi_module.deactivate = pw_php.sapi_deactivate;
    zend_mm_set_custom_handlers(pw_php.hooked_heap, pw_php.mode->alloc, leaving_free,
                                leaving_realloc);
}
