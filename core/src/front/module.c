// SPDX-License-Identifier: MIT
//
// Which module is calling? Only blocks and copies of modules known not to hand memory to devices
// (io_uring fixed buffers, GPU or RDMA registration) may share pages: a page that the kernel has
// pinned must never be remapped. Known are R itself and the libraries of R packages.

#include "front/module.h"
#include "front/c_library.h"
#include "front/process.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

extern void *__tls_get_addr(void *index); // of the dynamic loader

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// .../PACKAGE/libs/PACKAGE.so, where R installs the library of a package.
static bool is_package_library(const char *path, const char *name) {
    static const char folder[] = "/libs/";
    size_t name_length = strcspn(name, ".");
    size_t lead = (size_t)(name - path);
    if (lead < sizeof folder - 1 + name_length + 1 ||
        strncmp(name - (sizeof folder - 1), folder, sizeof folder - 1) != 0) {
        return false;
    }
    const char *package = name - (sizeof folder - 1) - name_length;
    return package[-1] == '/' && strncmp(package, name, name_length) == 0 &&
           strcmp(name + name_length, ".so") == 0;
}

// .../R/modules/NAME.so: libraries of base packages, lapack.so among them.
static bool is_extension(const char *path, const char *name) {
    return strstr(path, "/R/modules/") != NULL || is_package_library(path, name);
}

// libR.so, or the executable of an R that was built without a shared library.
static bool is_runtime(const char *path, const char *name) {
    return starts_with(name, "libR.so") || starts_with(name, "libRblas") ||
           starts_with(name, "libRlapack") || strstr(path, "/R/bin/exec/R") != NULL;
}

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

static bool contains(const struct pw_address_range *range, uintptr_t address) {
    return address - range->start < range->end - range->start;
}

static int find_ranges(struct dl_phdr_info *info, size_t size, void *context) {
    struct pw_address_range *ranges = context, whole = {UINTPTR_MAX, 0};
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
        if (header->p_type == PT_LOAD) {
            whole.start = start < whole.start ? start : whole.start;
            whole.end = end > whole.end ? end : whole.end;
        }
    }
    if (whole.end > whole.start && contains(&whole, (uintptr_t)__libc_free)) {
        ranges[0] = whole;
    } else if (whole.end > whole.start && contains(&whole, (uintptr_t)__tls_get_addr)) {
        ranges[1] = whole;
        pw_process.loader = pw_os_identity_of(info->dlpi_name);
    }
    return 0;
}

void pw_module_find_c_library(void) {
    dl_iterate_phdr(find_ranges, pw_process.c_library);
}

bool pw_module_is_c_library(const void *site, bool otherwise) {
    const struct pw_address_range *ranges = pw_process.c_library;
    if (!site || ranges[0].end == 0) {
        return otherwise;
    }
    return contains(&ranges[0], (uintptr_t)site) || contains(&ranges[1], (uintptr_t)site);
}

bool pw_module_is_one(const void *one, const void *other) {
    return module_of(one) == module_of(other);
}

static const char *path_of(const void *address) {
    const struct link_map *map = module_of(address);
    if (!map) {
        return NULL;
    }
    // The executable has no name in the list of modules; the kernel knows what was started.
    return *map->l_name ? map->l_name : (const char *)getauxval(AT_EXECFN);
}

enum pw_module pw_module_of_path(const char *path) {
    const char *name = base_name(path);
    if (is_extension(path, name)) {
        return PW_MODULE_EXTENSION;
    }
    return is_runtime(path, name) ? PW_MODULE_RUNTIME : PW_MODULE_OTHER;
}

const void *pw_module_base(const void *address, const char **path) {
    const struct link_map *map = module_of(address);
    *path = map ? map->l_name : NULL;
    return map;
}

enum pw_pool pw_pool_of_path(const char *path) {
    const char *name = base_name(path);
    if (starts_with(name, "libopenblas") || starts_with(name, "libblis")) {
        return PW_POOL_BLAS;
    }
    if (starts_with(name, "libgomp")) {
        return PW_POOL_OPENMP;
    }
    bool is_timer = strcmp(name, "cli.so") == 0 || strcmp(name, "later.so") == 0;
    return is_timer && is_package_library(path, name) ? PW_POOL_TIMER : PW_POOL_NONE;
}

enum pw_pool pw_pool_at(const void *site) {
    const char *path = path_of(site);
    return path ? pw_pool_of_path(path) : PW_POOL_NONE;
}

// What a pool keeps for itself, its idle threads may write to: not trusted, whatever the user says.
struct pw_caller pw_caller_at(const void *site) {
    const char *path = path_of(site);
    enum pw_module module = path ? pw_module_of_path(path) : PW_MODULE_OTHER;
    enum pw_pool pool = path ? pw_pool_of_path(path) : PW_POOL_NONE;
    bool is_pool = pool == PW_POOL_BLAS || pool == PW_POOL_OPENMP;
    if (module == PW_MODULE_OTHER && !is_pool && pw_process.options.modules == PW_MODULES_ALL) {
        module = PW_MODULE_RUNTIME;
    }
    return (struct pw_caller){.module = module, .in_blas = pool == PW_POOL_BLAS};
}
