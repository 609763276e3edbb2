// SPDX-License-Identifier: MIT
#include "os/module.h"

#include "os/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

// glibc has it since 2.35. A library that was built for older ones takes it where it is; a test's
// build stands for one that has it nowhere.
#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !defined(PW_NO_DL_FIND_OBJECT)
#define CAN_FIND 1
#pragma weak _dl_find_object
#endif

const struct link_map *pw_os_module_find(const void *address, const char **start,
                                         const char **end) {
#ifdef CAN_FIND
    struct dl_find_object found;
    if (_dl_find_object) {
        if (_dl_find_object((void *)(uintptr_t)address, &found) != 0) {
            return NULL;
        }
        *start = found.dlfo_map_start;
        *end = found.dlfo_map_end;
        return found.dlfo_link_map;
    }
#endif
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP)) {
        return NULL;
    }
    *start = info.dli_fbase;
    *end = (const char *)address + 1;
    return map;
}

static const struct link_map *module_of(const void *address) {
    const char *start, *end;
    return pw_os_module_find(address, &start, &end);
}

bool pw_os_module_is_one(const void *one, const void *other) {
    return module_of(one) == module_of(other);
}

const char *pw_os_module_path(const void *address) {
    const struct link_map *map = module_of(address);
    if (!map) {
        return NULL;
    }
    // The executable has no name in the list of modules; the kernel knows what was started.
    return *map->l_name ? map->l_name : (const char *)getauxval(AT_EXECFN);
}

const void *pw_os_module_base(const void *address, const char **path) {
    const struct link_map *map = module_of(address);
    *path = map ? map->l_name : NULL;
    return map;
}

const void *pw_os_module_headers(const void *module, const void *start, size_t size, size_t *count,
                                 size_t *module_size) {
    const ElfW(Ehdr) *file = start;
    const struct link_map *map = module;
    *module_size = size;
    if (size >= sizeof *file && memcmp(file, ELFMAG, SELFMAG) == 0) {
        *count = file->e_phnum;
        bool is_usual = file->e_phentsize == sizeof(ElfW(Phdr)) && file->e_phoff <= PW_PAGE &&
                        file->e_phoff + *count * sizeof(ElfW(Phdr)) <= PW_PAGE;
        return is_usual ? (const char *)file + file->e_phoff : NULL;
    }
    // Only the program itself has gaps, if the kernel has loaded it. AT_BASE is the loader's.
    bool is_program = !map->l_prev && getauxval(AT_BASE) != 0;
    *count = getauxval(AT_PHNUM);
    *module_size = SIZE_MAX;
    return is_program && getauxval(AT_PHENT) == sizeof(ElfW(Phdr))
               ? (const void *)getauxval(AT_PHDR)
               : NULL;
}

#ifdef CAN_FIND

static bool contains(const ElfW(Phdr) * segment, uintptr_t bias, uintptr_t address) {
    return segment->p_type == PT_LOAD && address - (bias + segment->p_vaddr) < segment->p_memsz;
}

bool pw_os_module_place(uintptr_t address, struct pw_os_place *place) {
    struct dl_find_object found;
    *place = (struct pw_os_place){0};
    if (!_dl_find_object || _dl_find_object((void *)address, &found) != 0) {
        return false;
    }
    uintptr_t start = (uintptr_t)found.dlfo_map_start;
    uintptr_t bias = found.dlfo_link_map->l_addr, tables = (uintptr_t)found.dlfo_eh_frame;
    size_t count, size;
    const ElfW(Phdr) *segments =
        pw_os_module_headers(found.dlfo_link_map, found.dlfo_map_start,
                             (uintptr_t)found.dlfo_map_end - start, &count, &size);
    place->is_code = !segments; // it may be
    for (size_t i = 0; segments && i < count; i++) {
        const ElfW(Phdr) *segment = &segments[i];
        const unsigned char *low = (const unsigned char *)(bias + segment->p_vaddr);
        uintptr_t from_start = size == SIZE_MAX ? 0 : (uintptr_t)low - start;
        bool is_inside = from_start <= size && segment->p_filesz <= size - from_start;
        bool is_readable = segment->p_flags & PF_R && is_inside;
        if (segment->p_flags & PF_X && contains(segment, bias, address)) {
            place->is_code = true;
            place->code_end = is_readable ? low + segment->p_filesz : NULL;
        }
        if (is_readable && tables && contains(segment, bias, tables)) {
            place->tables = (const unsigned char *)tables;
            place->tables_low = low;
            place->tables_high = low + segment->p_filesz;
        }
    }
    return true;
}

bool pw_os_module_has_places(void) {
    return _dl_find_object;
}

#else

bool pw_os_module_place(uintptr_t address, struct pw_os_place *place) {
    (void)address;
    *place = (struct pw_os_place){0};
    return false;
}

bool pw_os_module_has_places(void) {
    return false;
}

#endif

const char *pw_os_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
