// SPDX-License-Identifier: MIT
//
// The PHP extension: what emalloc and efree get their memory from.
//
//     pagewise.c      the module: options, phpinfo(), pagewise_status(), who may switch and who not
//     request.c       the heap that PHP sees, its handlers, and where a request ends
//     shutdown.c      PHP's fast shutdown, which it leaves out for heaps that are not its own
//     limit.c         memory_limit, memory_get_usage() and their like
//     ffi.c           FFI::free(), which asks PHP's own heap whose a block is
//     heap_options.c  what the options say to the core's heap, and why there is none
//     state.c         the state of all of them
//     transaction.c region.c pass_through.c foreign.c     one way to serve the handlers each
//
// PHP's heap has a place for three functions, without an argument of ours: what they need is in one
// struct. That is right without ZTS only, and with ZTS the extension does not switch.
#ifndef PHP_PAGEWISE_H
#define PHP_PAGEWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "php.h"

#include "pagewise_heap.h"

// The PHP versions whose allocator this was written for and tested with: the first and the last of
// each row. scripts/php-version reads them here. Without delayed errors at the memory limit
// (zend_mm_delayed_error_or_panic), which older ones have not, we cannot do.
#ifndef PW_PHP_VERSIONS
#define PW_PHP_VERSIONS 80235, 80236, 80427, 80428
#endif

#define PW_PHP_CHUNK ((size_t)2 << 20)

// A way to serve allocations.
struct pw_php_mode {
    const char *name;
    const char *text; // for phpinfo()
    // Make it ready; false: why was logged.
    bool (*start)(void);
    void *(*alloc)(size_t size);
    void (*free)(void *block);
    void *(*realloc)(void *block, size_t size);
    // The request is over. NULL: blocks must be freed one by one, PHP's fast shutdown is not for
    // this mode.
    void (*free_all)(void);
    // A new heap in place of one without blocks, if there is memory for it; NULL: there is none.
    void (*renew)(void);
    // Bytes of blocks in use, or (real) of memory taken for them; and the most of it in this
    // request. PHP's own heap takes memory in chunks of PW_PHP_CHUNK.
    size_t (*used)(bool real);
    size_t (*peak)(bool real);
    void (*reset_peak)(void);
    // Let freed memory serve other sizes, or give it back; the bytes of it. NULL: there is none.
    size_t (*reclaim)(void);
    void (*set_limit)(size_t bytes); // 0: none
    // NULL: there are none.
    void (*statistics)(struct pw_heap_statistics *out);
};

extern const struct pw_php_mode pw_php_transaction, pw_php_region, pw_php_pass_through,
    pw_php_foreign;

// The extension's state: all of it.
struct pw_php {
    // Hot, first: transaction.c.
    struct pw_heap *heap;
    size_t live_bytes;         // of blocks in use
    size_t seen_segment_bytes; // when peaks were last looked at
    size_t peak_live_bytes, peak_segment_bytes;
    size_t reclaim_above; // bytes of segments

    // The large block that was resized last, and the sizes for which it stays as it is.
    void *grown;
    size_t grown_least, grown_most;

    struct pw_region *region;                 // region.c
    size_t peak_region_bytes;                 //
    void *(*foreign_malloc)(size_t size);     // foreign.c
    void (*foreign_free)(void *block);        //
    void *(*foreign_realloc)(void *, size_t); //

    const struct pw_php_mode *mode;             // NULL: PHP has its own allocator
    zend_mm_heap *own_heap;                     // PHP's, from before the switch
    zend_mm_heap *hooked_heap;                  // the one with our handlers
    bool starting;                              // PHP is: blocks of own_heap are still in use
    bool in_transaction;                        // since the last free-all, something was allocated
    pid_t process;                              // whose own the heap is
    void (*free_interned_string)(zval *string); // PHP's own function, while it is replaced
    size_t requested;                           // by the allocation that goes on, for messages
    bool limited;                               // it was the limit that refused it
    uint64_t transactions;                      // begun so far
    char reason[256];                           // why there was no switch
    int end_resource;                           // shutdown.c: the type of resource
    int (*sapi_deactivate)(void);               // request.c: the SAPI's own function
    ZEND_INI_MH((*change_memory_limit));        // limit.c: PHP's own function
    zif_handler load_module;                    // ffi.c: the same of dl()

    // Options.
    char *mode_name, *malloc_library, *trusted_version;
    zend_long segment_size;
    bool huge_pages, return_memory, checked;
};

// Hidden: reached without a table of addresses.
extern struct pw_php pw_php __attribute__((visibility("hidden")));

// --- state.c ---------------------------------------------------------------------

// One line to PHP's error log.
void pw_php_log(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);

// --- heap_options.c --------------------------------------------------------------

// What the options say, for pw_heap_new and pw_region_new.
struct pw_heap_options pw_php_heap_options(void);
// Says why pw_heap_new or pw_region_new has made none, as errno has it. What: "heap" or "region".
void pw_php_log_none(const char *what);

// --- request.c -------------------------------------------------------------------

// What is left of PHP's life before this one, in the same process.
void pw_php_bury(void);
bool pw_php_hook(void);
void pw_php_unhook(void);

// --- shutdown.c ------------------------------------------------------------------

void pw_php_register_end(int module_number);
// To be called when the request ends (RSHUTDOWN).
void pw_php_prepare_end(void);

// --- limit.c ---------------------------------------------------------------------

void pw_php_take_over_limit(void);
void pw_php_give_back_limit(void);
// memory_limit as it is now, to be set at the start of a request.
void pw_php_limit_request(void);
// For pw_heap_options.
bool pw_php_on_limit(struct pw_heap *heap, size_t needed, void *context);
// An allocation was refused. NULL where the limit did it and PHP can live with that, else the end
// of the process.
void *pw_php_refused(size_t size);

// --- ffi.c -----------------------------------------------------------------------

void pw_php_take_over_ffi(void);
// The same for an ffi.so that a script loads. dl() is there when all modules have started.
void pw_php_take_over_dl(void);
void pw_php_give_back_dl(void);

#endif
