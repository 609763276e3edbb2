// SPDX-License-Identifier: MIT
//
// C++'s operator new and delete: without them every site of a C++ program would be the C++
// library's call of malloc. They are replaced only where nobody but the C++ library or the
// allocator itself defines them: a program's own may do something else than malloc. When there is
// no memory the one behind us is called, which throws.

#include "front/record.h"

#include <dlfcn.h>
#include <stdint.h>

#define API   __attribute__((visibility("default")))
#define SITE  __builtin_return_address(0)
#define FRAME __builtin_frame_address(0)

enum { UNDECIDED, OURS, OTHERS };

static struct {
    int whose;
    void *_Znwm, *_Znam, *_ZnwmRKSt9nothrow_t, *_ZnamRKSt9nothrow_t;
    void *_ZnwmSt11align_val_t, *_ZnamSt11align_val_t;
    void *_ZnwmSt11align_val_tRKSt9nothrow_t, *_ZnamSt11align_val_tRKSt9nothrow_t;
    void *_ZdlPv, *_ZdaPv, *_ZdlPvm, *_ZdaPvm, *_ZdlPvRKSt9nothrow_t, *_ZdaPvRKSt9nothrow_t;
    void *_ZdlPvSt11align_val_t, *_ZdaPvSt11align_val_t;
    void *_ZdlPvmSt11align_val_t, *_ZdaPvmSt11align_val_t;
    void *_ZdlPvSt11align_val_tRKSt9nothrow_t, *_ZdaPvSt11align_val_tRKSt9nothrow_t;
} behind;

#define NEXT(name) find(&behind.name, #name)

static void *find(void **function, const char *name) {
    if (!*function) {
        *function = dlsym(RTLD_NEXT, name);
    }
    return *function;
}

static int decide(void) {
    const void *function = NEXT(_Znwm);
    bool is_usual =
        function && (pw_record_is_in(function, "libstdc++.so") ||
                     pw_record_is_in(function, "libc++.so") || pw_record_is_behind(function));
    behind.whose = is_usual ? OURS : OTHERS;
    return behind.whose;
}

static inline bool is_ours(void) {
    int whose = behind.whose;
    return (whose == UNDECIDED ? decide() : whose) == OURS;
}

static inline void *allocate(size_t alignment, size_t size, const void *site, const void *frame) {
    return is_ours() ? pw_record_allocate(alignment, size ? size : 1, site, frame) : NULL;
}

typedef const void *nothrow;

#define NEW(name, alignment, parameters, ...)                                                      \
    API void *name parameters {                                                                    \
        void *block = allocate(alignment, size, SITE, FRAME);                                      \
        return block ? block : ((void *(*)parameters)NEXT(name))(__VA_ARGS__);                     \
    }
#define DELETE(name, parameters, ...)                                                              \
    API void name parameters {                                                                     \
        if (is_ours()) {                                                                           \
            pw_record_free(block);                                                                 \
        } else {                                                                                   \
            ((void(*) parameters)NEXT(name))(__VA_ARGS__);                                         \
        }                                                                                          \
    }

NEW(_Znwm, 0, (size_t size), size)
NEW(_Znam, 0, (size_t size), size)
NEW(_ZnwmRKSt9nothrow_t, 0, (size_t size, nothrow tag), size, tag)
NEW(_ZnamRKSt9nothrow_t, 0, (size_t size, nothrow tag), size, tag)
NEW(_ZnwmSt11align_val_t, alignment, (size_t size, size_t alignment), size, alignment)
NEW(_ZnamSt11align_val_t, alignment, (size_t size, size_t alignment), size, alignment)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, alignment, (size_t size, size_t alignment, nothrow tag),
    size, alignment, tag)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, alignment, (size_t size, size_t alignment, nothrow tag),
    size, alignment, tag)

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
