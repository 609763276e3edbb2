// SPDX-License-Identifier: MIT
#include "os/module.h"

#include <dlfcn.h>
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

const char *pw_os_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
