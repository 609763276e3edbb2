// SPDX-License-Identifier: MIT
#include "os/module.h"

#include "os/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

// The module that contains `address`, without walking its symbols where the C library can (2.35).
static const struct link_map *module_of(const void *address) {
#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !defined(PW_NO_DL_FIND_OBJECT)
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)address, &found) == 0 ? found.dlfo_link_map : NULL;
#else
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
#endif
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

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !defined(PW_NO_DL_FIND_OBJECT)

static bool contains(const ElfW(Phdr) * segment, uintptr_t bias, uintptr_t address) {
    return segment->p_type == PT_LOAD && address - (bias + segment->p_vaddr) < segment->p_memsz;
}

bool pw_os_module_place(uintptr_t address, struct pw_os_place *place) {
    struct dl_find_object found;
    *place = (struct pw_os_place){0};
    if (_dl_find_object((void *)address, &found) != 0) {
        return false;
    }
    const ElfW(Ehdr) *file = found.dlfo_map_start;
    uintptr_t bias = found.dlfo_link_map->l_addr, tables = (uintptr_t)found.dlfo_eh_frame;
    size_t size = (uintptr_t)found.dlfo_map_end - (uintptr_t)file;
    if (size < PW_PAGE || memcmp(file, ELFMAG, SELFMAG) != 0 ||
        file->e_phentsize != sizeof(ElfW(Phdr)) || file->e_phoff > PW_PAGE ||
        file->e_phoff + file->e_phnum * sizeof(ElfW(Phdr)) > PW_PAGE) {
        place->is_code = true; // it may be
        return true;
    }
    const ElfW(Phdr) *segments = (const void *)((const char *)file + file->e_phoff);
    for (int i = 0; i < file->e_phnum; i++) {
        const ElfW(Phdr) *segment = &segments[i];
        const unsigned char *low = (const unsigned char *)(bias + segment->p_vaddr);
        bool is_inside = (uintptr_t)low - (uintptr_t)file <= size &&
                         segment->p_filesz <= size - ((uintptr_t)low - (uintptr_t)file);
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
    return true;
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
