// SPDX-License-Identifier: MIT
//
// Libraries that are unloaded: others may be loaded where they were. What an address meant before
// dlclose it need not mean afterwards; and what their last functions allocate is theirs, and must
// not be taken for a later one's. (Those that the C library unloads by itself, converters of
// iconv's, are noticed when another one is found in their place.)

#include "os/dlsym.h"
#include "record/log.h"
#include "record/record.h"

#include <dlfcn.h>

#define API __attribute__((visibility("default")))

int pw_record_close(void *library) {
    static int (*next)(void *);
    if (!next) {
        next = (int (*)(void *))pw_os_find_next("dlclose");
    }
    return next ? next(library) : 0;
}

API int dlclose(void *library) {
    pw_hold_closing_begins();
    pw_site_forget_modules();
    int result = pw_record_close(library);
    pw_site_forget_modules();
    pw_hold_closing_ends();
    return result;
}
