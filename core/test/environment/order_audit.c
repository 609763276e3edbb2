// SPDX-License-Identifier: MIT
//
// An auditor (rtld-audit(7)) that sees all and changes nothing. It lives in a namespace of its own,
// with a C library of its own.
#include <link.h>
#include <stdlib.h>
#include <string.h>

unsigned int la_version(unsigned int version) {
    free(strdup("an auditor allocates as well"));
    return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)map, (void)space, (void)cookie;
    free(malloc(300000));
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned int number, uintptr_t *from, uintptr_t *to,
                       unsigned int *flags, const char *name) {
    (void)number, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}
