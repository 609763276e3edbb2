// SPDX-License-Identifier: MIT
//
// FFI::free() asks is_zend_ptr() whether a block is of a request or of the C library, and for a
// heap with custom handlers the answer is always no: it would give our blocks to free(). ffi.so
// reaches that function through its table of addresses; we put our own into that one place. Where
// that fails, FFI::free() of a request's memory ends the process, as it does under any other such
// heap.
#include "php_pagewise.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_of_request(const void *address) {
    if (pw_php.mode == &pw_php_transaction) {
        return pw_heap_contains(pw_php.heap, address);
    }
    if (pw_php.mode == &pw_php_region) {
        return pw_region_contains(pw_php.region, address);
    }
    zend_mm_heap *hooked = zend_mm_set_heap(pw_php.own_heap);
    bool own = is_zend_ptr(address);
    zend_mm_set_heap(hooked);
    return own;
}

#if defined(__x86_64__)
#define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_FUNCTION(type) false
#endif

struct relocated {
    uintptr_t base;       // of the module
    uintptr_t start, end; // what the loader has made read-only (RELRO)
};

static int find_relocated(struct dl_phdr_info *info, size_t size, void *context) {
    struct relocated *found = context;
    (void)size;
    if (info->dlpi_addr != found->base) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            found->start = found->base + info->dlpi_phdr[i].p_vaddr;
            found->end = found->start + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

// Whole pages, as the loader does it. Others hold what the module writes, and its table where
// functions are bound as they are called.
static bool is_read_only(const struct link_map *module, uintptr_t page, uintptr_t size) {
    struct relocated found = {.base = module->l_addr};
    dl_iterate_phdr(find_relocated, &found);
    return page >= (found.start & ~(size - 1)) && page + size <= (found.end & ~(size - 1));
}

static void replace(const struct link_map *module, void **place) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)place & ~(size - 1);
    if (mprotect((void *)page, size, PROT_READ | PROT_WRITE) == 0) {
        *(bool (**)(const void *))place = is_of_request;
        if (is_read_only(module, page, size)) {
            mprotect((void *)page, size, PROT_READ);
        }
    }
}

static void replace_in(const struct link_map *module, const ElfW(Rela) * entries, size_t size,
                       const ElfW(Sym) * symbols, const char *names) {
    for (size_t i = 0; entries && symbols && names && i < size / sizeof *entries; i++) {
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(entries[i].r_info)];
        if (IS_FUNCTION(ELF64_R_TYPE(entries[i].r_info)) &&
            !strcmp(names + symbol->st_name, "is_zend_ptr")) {
            replace(module, (void **)(module->l_addr + entries[i].r_offset));
        }
    }
}

void pw_php_take_over_ffi(void) {
    const zend_module_entry *ffi = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("ffi"));
    if (!ffi || !ffi->handle || pw_php.mode == &pw_php_foreign) {
        return; // not there, or part of PHP itself
    }
    const struct link_map *module = ffi->handle;
    const ElfW(Sym) *symbols = NULL;
    const ElfW(Rela) *calls = NULL, *others = NULL;
    const char *names = NULL;
    size_t calls_size = 0, others_size = 0;
    for (const ElfW(Dyn) *entry = module->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        const void *address = (const void *)entry->d_un.d_ptr;
        switch (entry->d_tag) {
        case DT_SYMTAB:
            symbols = address;
            break;
        case DT_STRTAB:
            names = address;
            break;
        case DT_JMPREL:
            calls = address;
            break;
        case DT_PLTRELSZ:
            calls_size = entry->d_un.d_val;
            break;
        case DT_RELA:
            others = address;
            break;
        case DT_RELASZ:
            others_size = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    replace_in(module, calls, calls_size, symbols, names);
    replace_in(module, others, others_size, symbols, names);
}

// A script may load ffi.so later.
static ZEND_NAMED_FUNCTION(load) {
    pw_php.load_module(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    pw_php_take_over_ffi();
}

static zend_function *dl_function(void) {
    return zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("dl"));
}

void pw_php_take_over_dl(void) {
    zend_function *dl = dl_function();
    if (dl && dl->type == ZEND_INTERNAL_FUNCTION) { // not there: disable_functions
        pw_php.load_module = dl->internal_function.handler;
        dl->internal_function.handler = load;
    }
}

void pw_php_give_back_dl(void) {
    zend_function *dl = dl_function();
    if (dl && pw_php.load_module) {
        dl->internal_function.handler = pw_php.load_module;
    }
}
