// SPDX-License-Identifier: MIT
//
// libpagewise-general.so: the malloc family of policy `general`, put before the C library's, and
// the calls that change how its blocks are mapped.

#include "block/account.h"
#include "block/small.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define FAMILY(name)    name
#define FAMILY_API      PW_API
#define FAMILY_SYMBOL   ".globl"
#define FIND_CALL(name) pw_find_next(name)

#include "entry/family_mappings.h"
#include "entry/family_sandbox.h"

__attribute__((constructor)) static void start_preload(void) {
    find_mapping_calls();
    find_exit_calls();
    if (pw_first_preloaded_is("libpagewise-preload.so")) {
        return;
    }
    pw_gate.preloaded = pw_gate.serves_all = true; // general.c starts when it can
    pw_process_watch_forks();
}

static void *refuse(void) {
    errno = ENOMEM;
    return NULL;
}

PW_API void *malloc(size_t size) {
    return pw_general_malloc(&pw_process, &pw_gate, size);
}

PW_API void free(void *block) {
    if (PW_UNLIKELY(!pw_general_free(&pw_process, &pw_gate, block))) {
        pw_general_freed(&pw_process, __builtin_return_address(0));
    }
}

// C23's: what they say beside the address is not needed.
PW_API void free_sized(void *block, size_t size) {
    (void)size;
    free(block);
}

PW_API void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    free(block);
}

PW_API void *calloc(size_t count, size_t size) {
    size_t total;
    return PW_UNLIKELY(__builtin_mul_overflow(count, size, &total))
               ? refuse()
               : pw_general_calloc(&pw_process, &pw_gate, total);
}

PW_API void *realloc(void *block, size_t size) {
    return pw_general_realloc(&pw_process, &pw_gate, block, size);
}

PW_API void *reallocarray(void *block, size_t count, size_t size) {
    size_t total;
    // By its name, as the C library: the program may define it, and not this one.
    return PW_UNLIKELY(__builtin_mul_overflow(count, size, &total)) ? refuse()
                                                                    : realloc(block, total);
}

// The C library takes the next power of two for an alignment that is none.
static size_t next_power(size_t alignment) {
    size_t power = 1;
    while (power < alignment && power <= SIZE_MAX / 4) {
        power *= 2;
    }
    return power;
}

PW_API void *memalign(size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    return pw_general_memalign(&pw_process, next_power(alignment), size);
}

PW_API void *aligned_alloc(size_t alignment, size_t size) {
    if (PW_UNLIKELY(__builtin_popcountl(alignment) != 1) && pw_c_refuses_odd_alignments()) {
        errno = EINVAL;
        return NULL;
    }
    return memalign(alignment, size);
}

PW_API int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    int saved = errno;
    void *got = pw_general_memalign(&pw_process, alignment, size);
    errno = saved;
    if (!got) {
        return ENOMEM;
    }
    *block = got;
    return 0;
}

PW_API void *valloc(size_t size) {
    return pw_general_memalign(&pw_process, PW_PAGE, size);
}

PW_API void *pvalloc(size_t size) {
    size_t rounded;
    if (__builtin_add_overflow(size, PW_PAGE - 1, &rounded)) {
        return refuse();
    }
    return pw_general_memalign(&pw_process, PW_PAGE, rounded & ~(PW_PAGE - 1));
}

PW_API size_t malloc_usable_size(void *block) {
    return pw_general_usable(&pw_process, block);
}

// One where memory was given back, as the C library's.
PW_API int malloc_trim(size_t pad) {
    (void)pad;
    return pw_trim() > 0;
}

// --- what operators ask --------------------------------------------------------

// Of blocks from before our start, and those that it served in our place.
static struct mallinfo2 ask_c_library(void) {
    static struct mallinfo2 (*next)(void);
    if (!next) {
        next = (struct mallinfo2(*)(void))pw_find_next("mallinfo2");
    }
    return next ? next() : (struct mallinfo2){0};
}

// In the C library's sense: what is in use is uordblks and hblkhd, and what was had of the system
// arena and hblkhd. Larger blocks are told as mapped ones, and a thread's cache as in use.
PW_API struct mallinfo2 mallinfo2(void) {
    struct mallinfo2 told = ask_c_library();
    struct pw_account account;
    if (!pw_gate.general) {
        return told;
    }
    pw_account_read(&pw_process, &account);
    size_t kept = account.warm_bytes + account.shelf_bytes;
    told.arena += account.small.segment_bytes + kept;
    told.ordblks += account.small.free_blocks;
    told.hblks += account.larger_blocks;
    told.hblkhd += account.larger_bytes;
    told.uordblks += account.small.block_bytes;
    told.fordblks += account.small.segment_bytes - account.small.block_bytes + kept;
    told.keepcost += kept;
    return told;
}

static int narrow(size_t number) {
    return number < INT_MAX ? (int)number : INT_MAX;
}

// An int holds 2 GB; the C library's wraps around.
PW_API struct mallinfo mallinfo(void) {
    struct mallinfo2 told = mallinfo2();
    return (struct mallinfo){
        .arena = narrow(told.arena),
        .ordblks = narrow(told.ordblks),
        .smblks = narrow(told.smblks),
        .hblks = narrow(told.hblks),
        .hblkhd = narrow(told.hblkhd),
        .usmblks = narrow(told.usmblks),
        .fsmblks = narrow(told.fsmblks),
        .uordblks = narrow(told.uordblks),
        .fordblks = narrow(told.fordblks),
        .keepcost = narrow(told.keepcost),
    };
}

// A stream may allocate as it is written to: the text is complete before.
static bool put_account(enum pw_account_form form, FILE *stream) {
    char *text = pw_account_begin(&pw_process, form);
    if (!text) {
        refuse();
        return false;
    }
    bool written = fputs(text, stream) >= 0;
    pw_account_end(text);
    return written;
}

PW_API int malloc_info(int options, FILE *stream) {
    static int (*next)(int, FILE *);
    if (options != 0) {
        return EINVAL;
    }
    if (pw_gate.general) {
        return put_account(PW_ACCOUNT_XML, stream) ? 0 : -1;
    }
    if (!next) {
        next = (int (*)(int, FILE *))pw_find_next("malloc_info");
    }
    return next ? next(options, stream) : -1;
}

PW_API void malloc_stats(void) {
    static void (*next)(void);
    if (pw_gate.general) {
        put_account(PW_ACCOUNT_TEXT, stderr);
        return;
    }
    if (!next) {
        next = (void (*)(void))pw_find_next("malloc_stats");
    }
    if (next) {
        next();
    }
}

// --- libraries with a scope of their own -----------------------------------------

// RTLD_DEEPBIND has a library find the C library's free before ours, and what it frees may be ours
// (strdup's): it would crash. So it is loaded without. The C library looks at who calls it (search
// paths are the caller's), and so it must be jumped to, not called: the test "deepbind" sees to it.
static int without_deepbind(int flags) {
    return pw_gate.general ? flags & ~RTLD_DEEPBIND : flags;
}

PW_API void *dlopen(const char *path, int flags) {
    static void *(*next)(const char *, int);
    if (PW_UNLIKELY(!next)) {
        next = (void *(*)(const char *, int))pw_find_next("dlopen");
    }
    return next(path, without_deepbind(flags));
}

// Another namespace has a C library of its own.
PW_API void *dlmopen(Lmid_t space, const char *path, int flags) {
    static void *(*next)(Lmid_t, const char *, int);
    if (PW_UNLIKELY(!next)) {
        next = (void *(*)(Lmid_t, const char *, int))pw_find_next("dlmopen");
    }
    if (space != LM_ID_BASE) {
        __atomic_store_n(&pw_process.general.other_libraries, true, __ATOMIC_RELAXED);
    }
    return next(space, path, space == LM_ID_BASE ? without_deepbind(flags) : flags);
}
