// SPDX-License-Identifier: MIT
//
// C++'s operator new and delete: without them every site of a C++ program would be the C++
// library's call of malloc. They are replaced only where nobody but the C++ library or the
// allocator itself defines them: a program's own may do something else than malloc. When there is
// no memory the one behind us is called, which throws.
//
// A program that is not C++ itself may load libraries that are (Python's extension modules), with
// the C++ library in a scope of their own. Then nobody is next in the program's scope, and the
// operators are looked for where the caller would have found them. (One that jumped here, as its
// last act, is taken for its own caller; if nobody is found for that one, malloc and free serve.)
//
// To look for somebody takes the loader's lock, which a thread in dlopen holds while it runs a
// library's constructor. That may wait for a thread which calls an operator. So the program's own
// scope is looked through when the recorder starts. Of callers in other scopes the loader is asked
// only where somebody defines operators who is neither the caller itself nor the C++ library.

#include "os/dlsym.h"
#include "os/os.h"
#include "record/definers.h"
#include "record/record.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define API   __attribute__((visibility("default")))
#define SITE  __builtin_return_address(0)
#define FRAME __builtin_frame_address(0)

// BY_CALLER: the first caller in a scope of its own found operators that are a library's own, which
// others do not find. Where the first one found the C++ library's, all are ours from then on, and a
// library's own are not called: what they would have allocated they will not have to release.
enum { UNDECIDED, OURS, OTHERS, BY_CALLER };

#define EACH_NEW(DO)                                                                               \
    DO(_Znwm)                                                                                      \
    DO(_Znam)                                                                                      \
    DO(_ZnwmRKSt9nothrow_t)                                                                        \
    DO(_ZnamRKSt9nothrow_t)                                                                        \
    DO(_ZnwmSt11align_val_t)                                                                       \
    DO(_ZnamSt11align_val_t)                                                                       \
    DO(_ZnwmSt11align_val_tRKSt9nothrow_t)                                                         \
    DO(_ZnamSt11align_val_tRKSt9nothrow_t)
#define EACH_DELETE(DO)                                                                            \
    DO(_ZdlPv)                                                                                     \
    DO(_ZdaPv)                                                                                     \
    DO(_ZdlPvm)                                                                                    \
    DO(_ZdaPvm)                                                                                    \
    DO(_ZdlPvRKSt9nothrow_t)                                                                       \
    DO(_ZdaPvRKSt9nothrow_t)                                                                       \
    DO(_ZdlPvSt11align_val_t)                                                                      \
    DO(_ZdaPvSt11align_val_t)                                                                      \
    DO(_ZdlPvmSt11align_val_t)                                                                     \
    DO(_ZdaPvmSt11align_val_t)                                                                     \
    DO(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                        \
    DO(_ZdaPvSt11align_val_tRKSt9nothrow_t)
#define DECLARE(name) void *name;

static struct {
    int whose;
    bool is_searched; // the program's scope has been
    EACH_NEW(DECLARE)
    EACH_DELETE(DECLARE)
} behind;

// --- who defines them ------------------------------------------------------------

static bool is_in_one_module(const void *one, const void *other) {
    Dl_info first, second;
    return dladdr(one, &first) && dladdr(other, &second) && first.dli_fbase == second.dli_fbase;
}

// The module that an address is in, open once more. NULL: it is the program, or being unloaded.
static void *open_module(const void *address) {
    Dl_info info;
    return dladdr(address, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

// Nobody next in the program's scope: from the caller on. NULL: nobody there, or we ourselves.
static void *find_for(const void *site, const char *name) {
    void *caller = open_module(site);
    void *found = caller ? dlsym(caller, name) : NULL;
    if (caller) {
        pw_record_close(caller);
    }
    return found && !is_in_one_module(found, &behind) ? found : NULL;
}

// What was not found is no error of the program's, which may ask for one next.
static void end_search(uintptr_t before) {
    while (dlerror()) {}
    pw_record_resume(before);
}

// Without the loader, where there is no doubt.
static void *find_by_tables(const struct pw_definers *definers) {
    return definers->own || definers->has_others ? definers->own : definers->usual;
}

static void *find_by_loader(const char *name, const void *site) {
    void *next = behind.whose == BY_CALLER ? NULL : pw_os_find_next(name);
    return next ? next : find_for(site, name);
}

static void *find(void *const *function, const char *name, const void *site) {
    if (*function) {
        return *function;
    }
    uintptr_t before = pw_record_pause(FRAME);
    struct pw_definers definers = pw_definers_of(name, site);
    bool is_to_throw = behind.whose == OURS && definers.usual;
    void *found = is_to_throw ? definers.usual : find_by_tables(&definers);
    if (!found && definers.has_others) {
        found = find_by_loader(name, site);
    }
    end_search(before);
    return found;
}

#define NEXT(name) find(&behind.name, #name, SITE)

static bool is_usual(const void *function) {
    return pw_record_is_in(function, "libstdc++.so") || pw_record_is_in(function, "libc++.so") ||
           pw_record_is_behind(function);
}

static int decide_for(const void *site) {
    struct pw_definers definers = pw_definers_of("_Znwm", site);
    void *function = find_by_tables(&definers);
    if (!function && definers.has_others) {
        function = find_by_loader("_Znwm", site);
        definers.own = function && !is_usual(function) ? function : NULL;
    }
    if (definers.own) {
        behind.whose = BY_CALLER;
        return OTHERS;
    }
    if (function && behind.whose == UNDECIDED) {
        behind.whose = OURS;
    }
    return OURS; // also where nobody is found, which may be another one's answer next time
}

// Also whom to call when there is no memory, or for whom they are. Leaves it undecided where nobody
// is in the program's scope.
static void decide_for_program(void) {
    behind.is_searched = true;
    const void *function = pw_os_find_next("_Znwm");
    if (!function) {
        return;
    }
#define FIND_NEXT(name) behind.name = pw_os_find_next(#name);
    EACH_NEW(FIND_NEXT)
    EACH_DELETE(FIND_NEXT)
    __atomic_store_n(&behind.whose, is_usual(function) ? OURS : OTHERS, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void start_operators(void) {
    uintptr_t before = pw_record_pause(FRAME);
    if (behind.whose == UNDECIDED) {
        decide_for_program();
    }
    end_search(before);
}

static int decide(const void *site) {
    uintptr_t before = pw_record_pause(FRAME);
    if (!behind.is_searched) {
        decide_for_program();
    }
    bool is_decided = behind.whose == OURS || behind.whose == OTHERS;
    int whose = is_decided ? behind.whose : decide_for(site);
    end_search(before);
    return whose;
}

static inline bool is_ours(const void *site) {
    int whose = __atomic_load_n(&behind.whose, __ATOMIC_ACQUIRE);
    return (whose == OURS || whose == OTHERS ? whose : decide(site)) == OURS;
}

// --- the operators ---------------------------------------------------------------

typedef const void *nothrow;

static inline void *allocate(size_t alignment, size_t size, const void *site, const void *frame) {
    return pw_record_allocate(alignment, size ? size : 1, site, frame);
}

// Nobody is behind us who could throw.
static void *allocate_alone(size_t alignment, size_t size, bool may_fail, const void *site,
                            const void *frame) {
    void *block = allocate(alignment, size, site, frame);
    if (!block && !may_fail) {
        pw_os_warn(
            "no memory for operator new, and no C++ library that could throw: the program is "
            "stopped, as by an exception that nobody catches",
            "");
        abort();
    }
    return block;
}

#define NEW(name, alignment, may_fail, parameters, ...)                                            \
    API void *name parameters {                                                                    \
        void *block = is_ours(SITE) ? allocate(alignment, size, SITE, FRAME) : NULL;               \
        void *(*function)parameters = block ? NULL : (void *(*)parameters)NEXT(name);              \
        return block      ? block                                                                  \
               : function ? function(__VA_ARGS__)                                                  \
                          : allocate_alone(alignment, size, may_fail, SITE, FRAME);                \
    }
#define DELETE(name, parameters, ...)                                                              \
    API void name parameters {                                                                     \
        void(*function) parameters = is_ours(SITE) ? NULL : (void(*) parameters)NEXT(name);        \
        if (function) {                                                                            \
            function(__VA_ARGS__);                                                                 \
        } else {                                                                                   \
            pw_record_free(block);                                                                 \
        }                                                                                          \
    }

NEW(_Znwm, 0, false, (size_t size), size)
NEW(_Znam, 0, false, (size_t size), size)
NEW(_ZnwmRKSt9nothrow_t, 0, true, (size_t size, nothrow tag), size, tag)
NEW(_ZnamRKSt9nothrow_t, 0, true, (size_t size, nothrow tag), size, tag)
NEW(_ZnwmSt11align_val_t, alignment, false, (size_t size, size_t alignment), size, alignment)
NEW(_ZnamSt11align_val_t, alignment, false, (size_t size, size_t alignment), size, alignment)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, alignment, true,
    (size_t size, size_t alignment, nothrow tag), size, alignment, tag)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, alignment, true,
    (size_t size, size_t alignment, nothrow tag), size, alignment, tag)

DELETE(_ZdlPv, (void *block), block)
DELETE(_ZdaPv, (void *block), block)
DELETE(_ZdlPvm, (void *block, size_t size), block, size)
DELETE(_ZdaPvm, (void *block, size_t size), block, size)
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, nothrow tag), block, tag)
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, nothrow tag), block, tag)
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), block, alignment)
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), block, alignment)
DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), block, size, alignment)
DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), block, size, alignment)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow tag), block,
       alignment, tag)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow tag), block,
       alignment, tag)
