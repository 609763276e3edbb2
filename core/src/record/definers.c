// SPDX-License-Identifier: MIT
#include "record/definers.h"
#include "os/module.h"
#include "record/log.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct search {
    const char *name;
    uintptr_t caller;
    struct pw_definers found;
};

static bool is_in(const struct dl_phdr_info *module, uintptr_t address) {
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &module->dlpi_phdr[i];
        uintptr_t start = module->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address - start < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

static bool is_usual(const struct dl_phdr_info *module) {
    const char *name = pw_os_base_name(module->dlpi_name);
    return strncmp(name, "libstdc++.so", 12) == 0 || strncmp(name, "libc++.so", 9) == 0 ||
           is_in(module, pw_log.behind);
}

// --- symbol tables ---------------------------------------------------------------

struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash, *hash;
};

// Where the loader has not put an address in the place of an offset, it is one.
static const void *table_at(const struct dl_phdr_info *module, ElfW(Addr) place) {
    return (const void *)(place < module->dlpi_addr ? place + module->dlpi_addr : place);
}

static struct tables tables_of(const struct dl_phdr_info *module) {
    struct tables tables = {0};
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        if (module->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const void *)(module->dlpi_addr + module->dlpi_phdr[i].p_vaddr);
        }
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *table = table_at(module, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB) {
            tables.symbols = table;
        } else if (entry->d_tag == DT_STRTAB) {
            tables.names = table;
        } else if (entry->d_tag == DT_GNU_HASH) {
            tables.gnu_hash = table;
        } else if (entry->d_tag == DT_HASH) {
            tables.hash = table;
        }
    }
    return tables;
}

static bool is_definition(const struct tables *tables, uint32_t number, const char *name) {
    const ElfW(Sym) *symbol = &tables->symbols[number];
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           strcmp(tables->names + symbol->st_name, name) == 0;
}

static uint32_t gnu_hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

// Number of a symbol; 0: it is not there. Names of one bucket follow each other, and the last one's
// hash is odd.
static uint32_t find_by_gnu_hash(const struct tables *tables, const char *name) {
    const uint32_t *head = tables->gnu_hash; // buckets, first symbol, words of a filter, its shift
    const uint32_t *buckets = head + 4 + head[2] * (sizeof(ElfW(Addr)) / sizeof *head);
    const uint32_t *hashes = buckets + head[0];
    uint32_t hash = gnu_hash_of(name);
    uint32_t number = head[0] ? buckets[hash % head[0]] : 0;
    while (number >= head[1] && number != 0) {
        uint32_t others = hashes[number - head[1]];
        if ((others | 1) == (hash | 1) && is_definition(tables, number, name)) {
            return number;
        }
        number = others & 1 ? 0 : number + 1;
    }
    return 0;
}

// The old kind of table says how many there are.
static uint32_t find_one_by_one(const struct tables *tables, const char *name) {
    for (uint32_t number = 1; tables->hash && number < tables->hash[1]; number++) {
        if (is_definition(tables, number, name)) {
            return number;
        }
    }
    return 0;
}

static void *definition_in(const struct dl_phdr_info *module, const char *name) {
    struct tables tables = tables_of(module);
    if (!tables.symbols || !tables.names) {
        return NULL;
    }
    uint32_t number =
        tables.gnu_hash ? find_by_gnu_hash(&tables, name) : find_one_by_one(&tables, name);
    return number ? (void *)(module->dlpi_addr + tables.symbols[number].st_value) : NULL;
}

// --- modules ---------------------------------------------------------------------

static int look_into(struct dl_phdr_info *module, size_t size, void *context) {
    (void)size;
    struct search *search = context;
    void *function = is_in(module, (uintptr_t)&pw_log) ? NULL : definition_in(module, search->name);
    if (!function) {
        return 0;
    }
    if (is_usual(module)) {
        search->found.usual = search->found.usual ? search->found.usual : function;
    } else if (is_in(module, search->caller)) {
        search->found.own = function;
    } else {
        search->found.has_others = true;
    }
    return 0;
}

// The list of modules has a lock of its own, which nobody holds while code of a module runs.
struct pw_definers pw_definers_of(const char *name, const void *caller) {
    struct search search = {.name = name, .caller = (uintptr_t)caller};
    dl_iterate_phdr(look_into, &search);
    return search.found;
}
