// SPDX-License-Identifier: MIT
//
// Who defines a function, by the symbol tables of the modules that are loaded. The loader would
// have to be asked under its lock, which a thread in dlopen holds while it runs constructors.
#ifndef PW_RECORD_DEFINERS_H
#define PW_RECORD_DEFINERS_H

#include <stdbool.h>

struct pw_definers {
    void *own;       // the caller's module's own, if that is none of the usual ones
    void *usual;     // the C++ library's, or that of the allocator behind us
    bool has_others; // there are more, which a caller in their scope may find
};

struct pw_definers pw_definers_of(const char *name, const void *caller);

#endif
