// SPDX-License-Identifier: MIT
#include "entry/got.h"
#include "os/os.h"
#include "process/pools.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#if defined(__x86_64__)
#define IS_POINTER(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_POINTER(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_POINTER(type) false // nothing is patched: a failure that pw_switch_on reports
#endif

// --- what a module's dynamic section says --------------------------------------

struct module {
    const struct dl_phdr_info *info;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2]; // lazily bound functions, and all else
    size_t counts[2];
    char *protected_start, *protected_end; // RELRO, as the dynamic linker rounds it
    bool loads;                            // the modules of a runtime
    bool is_known;                         // is one of these
    bool is_pool;                          // and not known
};

static const void *pointer(const struct module *module, ElfW(Addr) value) {
    // Most systems have these addresses relocated in place, some leave them.
    return (const void *)(value < module->info->dlpi_addr ? value + module->info->dlpi_addr
                                                          : value);
}

static void read_dynamic(struct module *module, const ElfW(Dyn) * entry) {
    bool plt_has_addends = true;
    size_t plt_size = 0, size = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            module->symbols = pointer(module, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            module->strings = pointer(module, entry->d_un.d_ptr);
            break;
        case DT_JMPREL:
            module->tables[0] = pointer(module, entry->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            plt_size = entry->d_un.d_val;
            break;
        case DT_PLTREL:
            plt_has_addends = entry->d_un.d_val == DT_RELA;
            break;
        case DT_RELA:
            module->tables[1] = pointer(module, entry->d_un.d_ptr);
            break;
        case DT_RELASZ:
            size = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    module->counts[0] = module->tables[0] && plt_has_addends ? plt_size / sizeof(ElfW(Rela)) : 0;
    module->counts[1] = module->tables[1] ? size / sizeof(ElfW(Rela)) : 0;
}

static bool read_module(struct module *module, const struct dl_phdr_info *info) {
    *module = (struct module){.info = info};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_DYNAMIC) {
            read_dynamic(module, (const ElfW(Dyn) *)start);
        } else if (header->p_type == PT_GNU_RELRO) {
            module->protected_start = (char *)(start & ~(PW_PAGE - 1));
            module->protected_end = (char *)((start + header->p_memsz) & ~(PW_PAGE - 1));
        }
    }
    return module->symbols && module->strings;
}

static bool contains(const struct dl_phdr_info *info, const void *address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t offset = (uintptr_t)address - (info->dlpi_addr + header->p_vaddr);
        if (header->p_type == PT_LOAD && offset < header->p_memsz) {
            return true;
        }
    }
    return false;
}

static bool is_protected(const struct module *module, const void *address) {
    return (const char *)address >= module->protected_start &&
           (const char *)address < module->protected_end;
}

// --- what was there before -----------------------------------------------------

static struct pw_got_slot *slot_of(struct pw_got *got, void **place) {
    size_t at = (uintptr_t)place / sizeof(void *) * 0x9E3779B9u % PW_GOT_SLOTS;
    for (size_t tried = 0; tried < PW_GOT_SLOTS; tried++) {
        struct pw_got_slot *slot = &got->slots[(at + tried) % PW_GOT_SLOTS];
        if (!slot->place || slot->place == place) {
            return slot;
        }
    }
    return NULL;
}

// --- one module ------------------------------------------------------------------

// What is done to each pointer to one of the functions. Returns whether it was changed.
typedef bool change(struct pw_got *got, const struct module *module, void **place,
                    const struct pw_got_function *function);

static const struct pw_got_function *function_named(const struct pw_got *got, const char *name) {
    for (size_t i = 0; i < got->function_count; i++) {
        if (!strcmp(got->functions[i].name, name)) {
            return &got->functions[i];
        }
    }
    return NULL;
}

// Visit the pointers of a module. `change` sees writable memory only.
static unsigned change_pointers(struct pw_got *got, const struct module *module, change *act,
                                bool protected_ones) {
    unsigned changed = 0;
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < module->counts[table]; i++) {
            const ElfW(Rela) *entry = &module->tables[table][i];
            if (!IS_POINTER(ELF64_R_TYPE(entry->r_info))) {
                continue;
            }
            const ElfW(Sym) *symbol = &module->symbols[ELF64_R_SYM(entry->r_info)];
            const char *name = module->strings + symbol->st_name;
            const struct pw_got_function *function = function_named(got, name);
            void **place = (void **)(module->info->dlpi_addr + entry->r_offset);
            if (function && is_protected(module, place) == protected_ones) {
                changed += act(got, module, place, function);
            }
        }
    }
    return changed;
}

// Does the module have a protected pointer to change? Then the protection is lifted for a moment.
static bool looks(struct pw_got *got, const struct module *module, void **place,
                  const struct pw_got_function *function) {
    (void)got, (void)module, (void)place, (void)function;
    return true;
}

static unsigned change_module(struct pw_got *got, const struct module *module, change *act) {
    unsigned changed = change_pointers(got, module, act, false);
    if (module->protected_start >= module->protected_end ||
        !change_pointers(got, module, looks, true)) {
        return changed;
    }
    size_t size = (size_t)(module->protected_end - module->protected_start);
    if (!pw_os_protect(module->protected_start, size, true)) {
        got->refused++;
        return changed;
    }
    changed += change_pointers(got, module, act, true);
    pw_os_protect(module->protected_start, size, false);
    return changed;
}

static bool is_for(const struct pw_got_function *function, const struct module *module) {
    if (function->of_loader) {
        return module->loads;
    }
    return module->is_known || (module->is_pool && function->of_pools);
}

static bool replace(struct pw_got *got, const struct module *module, void **place,
                    const struct pw_got_function *function) {
    void *value = __atomic_load_n(place, __ATOMIC_RELAXED);
    // Not bound yet, or bound to the C library; anything else is another tool's.
    bool plain =
        value == function->original || value == function->stub || contains(module->info, value);
    struct pw_got_slot *slot = plain ? slot_of(got, place) : NULL;
    if (!slot || !is_for(function, module)) {
        got->refused += plain && !slot;
        return false;
    }
    *slot = (struct pw_got_slot){place, value};
    __atomic_store_n(place, function->replacement, __ATOMIC_RELEASE);
    return true;
}

static bool put_back(struct pw_got *got, const struct module *module, void **place,
                     const struct pw_got_function *function) {
    (void)module;
    struct pw_got_slot *slot = slot_of(got, place);
    if (__atomic_load_n(place, __ATOMIC_RELAXED) != function->replacement || !slot ||
        !slot->place) {
        return false;
    }
    __atomic_store_n(place, slot->original, __ATOMIC_RELEASE);
    return true;
}

static bool put_back_unless_in_use(struct pw_got *got, const struct module *module, void **place,
                                   const struct pw_got_function *function) {
    return !function->until_no_use && put_back(got, module, place, function);
}

// --- an executable at a fixed address ----------------------------------------------

struct own_pointer {
    const char *name;
    void *value; // NULL: it has none, or has not used it
};

static int find_own_pointer(struct dl_phdr_info *info, size_t size, void *context) {
    struct own_pointer *wanted = context;
    struct module module;
    (void)size;
    if (!read_module(&module, info)) {
        return 1;
    }
    for (size_t i = 0; i < module.counts[0]; i++) {
        const ElfW(Rela) *entry = &module.tables[0][i];
        const ElfW(Sym) *symbol = &module.symbols[ELF64_R_SYM(entry->r_info)];
        void **place = (void **)(info->dlpi_addr + entry->r_offset);
        if (!strcmp(module.strings + symbol->st_name, wanted->name) && !contains(info, *place)) {
            wanted->value = *place;
        }
    }
    return 1; // the executable comes first, and is all
}

void *pw_got_definition(const char *name, void **stub) {
    Dl_info found;
    const ElfW(Sym) *symbol = NULL;
    *stub = dlsym(RTLD_DEFAULT, name);
    bool is_stub = *stub && dladdr1(*stub, &found, (void **)&symbol, RTLD_DL_SYMENT) != 0 &&
                   symbol && symbol->st_shndx == SHN_UNDEF;
    struct own_pointer own = {name, is_stub ? NULL : *stub};
    if (is_stub) {
        dl_iterate_phdr(find_own_pointer, &own);
    }
    return own.value;
}

// --- all modules -----------------------------------------------------------------

struct walk {
    struct pw_got *got;
    change *act;
    bool new_ones;
    unsigned changed;
};

static bool seen_before(struct pw_got *got, uintptr_t address) {
    for (size_t i = 0; i < got->module_count; i++) {
        if (got->modules[i] == address) {
            return true;
        }
    }
    if (got->module_count < PW_GOT_MODULES) {
        got->modules[got->module_count++] = address;
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
    struct walk *walk = context;
    struct module module;
    if (walk->new_ones &&
        size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs &&
        info->dlpi_subs != walk->got->unloaded) {
        walk->got->unloaded = info->dlpi_subs;
        walk->got->module_count = 0;
    }
    if (walk->new_ones && seen_before(walk->got, info->dlpi_addr)) {
        return 0;
    }
    // The executable has no name in the list; the kernel knows what was started.
    const char *path = *info->dlpi_name ? info->dlpi_name : (const char *)getauxval(AT_EXECFN);
    path = path ? path : "";
    bool is_known = pw_module_of_path(path) != PW_MODULE_OTHER, loads = pw_module_loads(path);
    bool is_pool = !is_known && pw_pool_of_path(path) != PW_POOL_NONE;
    if ((!is_known && !is_pool && !loads) || !read_module(&module, info)) {
        return 0;
    }
    module.is_known = is_known;
    module.loads = loads;
    module.is_pool = is_pool;
    walk->changed += change_module(walk->got, &module, walk->act);
    return 0;
}

unsigned pw_got_patch(struct pw_got *got) {
    struct walk walk = {got, replace, true, 0};
    if (!got->slots) {
        got->slots = pw_os_map_table(PW_GOT_SLOTS * sizeof *got->slots);
        if (!got->slots) {
            return 0;
        }
    }
    dl_iterate_phdr(visit, &walk);
    got->patched += walk.changed;
    return walk.changed;
}

unsigned pw_got_restore(struct pw_got *got, bool all) {
    struct walk walk = {got, all ? put_back : put_back_unless_in_use, false, 0};
    got->module_count = 0;
    if (got->slots) {
        dl_iterate_phdr(visit, &walk);
    }
    got->patched -= walk.changed < got->patched ? walk.changed : got->patched;
    return walk.changed;
}
