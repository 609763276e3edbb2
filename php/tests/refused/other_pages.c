// SPDX-License-Identifier: MIT
//
// To be preloaded: the kernel's pages are said to be of 64 KB.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>

unsigned long getauxval(unsigned long kind) {
    unsigned long (*real)(unsigned long) =
        (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return kind == AT_PAGESZ ? 65536 : real(kind);
}
