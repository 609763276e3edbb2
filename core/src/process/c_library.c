// SPDX-License-Identifier: MIT
#include "process/c_library.h"
#include "os/module.h"
#include "process/lock.h"
#include "process/state.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>

extern void *__tls_get_addr(void *index); // of the dynamic loader

// --- the C library's ---------------------------------------------------------

static size_t usable_size(void *block) {
    return pw_os_c_usable_size(block);
}

static const struct pw_behind c_library = {
    .allocate = __libc_malloc,
    .allocate_zeroed = __libc_calloc,
    .resize = __libc_realloc,
    .allocate_aligned = __libc_memalign,
    .release = __libc_free,
    .usable_size = usable_size,
};

// --- until it is known -------------------------------------------------------

static void *first_allocate(size_t size) {
    pw_behind_decide();
    return pw_behind.allocate(size);
}

static void *first_allocate_zeroed(size_t count, size_t size) {
    pw_behind_decide();
    return pw_behind.allocate_zeroed(count, size);
}

static void *first_resize(void *block, size_t size) {
    pw_behind_decide();
    return pw_behind.resize(block, size);
}

static void *first_allocate_aligned(size_t alignment, size_t size) {
    pw_behind_decide();
    return pw_behind.allocate_aligned(alignment, size);
}

static void first_release(void *block) {
    pw_behind_decide();
    pw_behind.release(block);
}

static size_t first_usable_size(void *block) {
    pw_behind_decide();
    return pw_behind.usable_size(block);
}

struct pw_behind pw_behind = {
    .allocate = first_allocate,
    .allocate_zeroed = first_allocate_zeroed,
    .resize = first_resize,
    .allocate_aligned = first_allocate_aligned,
    .release = first_release,
    .usable_size = first_usable_size,
};

// --- finding out -------------------------------------------------------------

// What the library lacks it has from the C library, as without us.
#define TAKE(field, name)                                                                          \
    do {                                                                                           \
        void *function = pw_find_next(#name);                                                      \
        if (function) {                                                                            \
            behind->field = (__typeof__(behind->field))function;                                   \
        }                                                                                          \
    } while (0)

static int (*posix_aligned)(void **, size_t, size_t);

static void *allocate_posix_aligned(size_t alignment, size_t size) {
    void *block = NULL;
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    int error = posix_aligned(&block, least, size);
    if (error) {
        errno = error;
    }
    return error ? NULL : block;
}

static void find_other(struct pw_behind *behind) {
    const void *next = pw_find_next ? pw_find_next("malloc") : NULL;
    if (!next || pw_os_module_is_one(next, (const void *)(uintptr_t)__libc_malloc)) {
        return;
    }
    TAKE(allocate, malloc);
    TAKE(allocate_zeroed, calloc);
    TAKE(resize, realloc);
    TAKE(allocate_aligned, memalign);
    TAKE(release, free);
    TAKE(usable_size, malloc_usable_size);
    if (!pw_os_module_is_one((const void *)(uintptr_t)behind->allocate_aligned, next)) {
        void *function = pw_find_next("posix_memalign");
        if (function && pw_os_module_is_one(function, next)) {
            posix_aligned = (__typeof__(posix_aligned))function;
            behind->allocate_aligned = allocate_posix_aligned;
        }
    }
    behind->is_other = true;
}

void pw_behind_decide(void) {
    static __thread bool deciding __attribute__((tls_model("initial-exec")));
    if (pw_behind.allocate != first_allocate) {
        return;
    }
    struct pw_behind found = c_library;
    if (!deciding) { // dlsym may allocate: from the C library then
        deciding = true;
        find_other(&found);
        deciding = false;
    }
    if (pw_behind.allocate != first_allocate) {
        return; // it did, and so it stays
    }
    // Before the program has threads, or each thread finds the same. What is asked first comes
    // last.
    pw_behind.is_other = found.is_other;
    pw_behind.usable_size = found.usable_size;
    pw_behind.release = found.release;
    pw_behind.allocate_aligned = found.allocate_aligned;
    pw_behind.resize = found.resize;
    pw_behind.allocate_zeroed = found.allocate_zeroed;
    __atomic_store_n(&pw_behind.allocate, found.allocate, __ATOMIC_RELEASE);
}

// --- where it lies -----------------------------------------------------------

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
        pw_process.loader_path = info->dlpi_name;
    }
    return 0;
}

static bool is_at_least(int major, int minor) {
    int found_major = 0, found_minor = 0;
    return sscanf(gnu_get_libc_version(), "%d.%d", &found_major, &found_minor) == 2 &&
           (found_major > major || (found_major == major && found_minor >= minor));
}

// The size in the header of a mapped block, with what lies before it, is a multiple of pages, or
// was short of one by the header. A block of this size is always mapped, and changes no threshold
// when it is freed.
static size_t uncounted_header(void) {
    const size_t header = 2 * sizeof(size_t);
    size_t *block = is_at_least(2, 42) ? __libc_malloc(PW_C_ALWAYS_MAPPED + PW_PAGE) : NULL;
    bool uncounted = is_at_least(2, 43);
    if (block && block[-1] & 2) { // where mallopt allows no mappings, the version tells
        size_t all = (block[-2] & ~(size_t)7) + (block[-1] & ~(size_t)7);
        uncounted = (all + header) % PW_PAGE == 0;
    }
    __libc_free(block);
    return uncounted ? header : 0;
}

void pw_c_library_find(void) {
    dl_iterate_phdr(find_ranges, pw_process.c_library);
    pw_process.uncounted_header = uncounted_header();
}

void pw_c_library_identify_loader(void) {
    if (pw_process.loader_path) {
        pw_process.loader = pw_os_identity_of(pw_process.loader_path);
    }
}

bool pw_c_library_contains(const void *site, bool otherwise) {
    const struct pw_address_range *ranges = pw_process.c_library;
    if (!site || ranges[0].end == 0) {
        return otherwise;
    }
    return contains(&ranges[0], (uintptr_t)site) || contains(&ranges[1], (uintptr_t)site);
}

// --- mappings ----------------------------------------------------------------

static bool relieve(struct pw_arena *arena) {
    return pw_mappings_relieve(arena) ||
           (pw_os_address_space_is_limited() && pw_arena_shrink(arena) > 0);
}

bool pw_process_relieve(void) {
    if (!pw_process.arena.base || __atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED) ||
        !pw_process_enter()) {
        return false;
    }
    bool relieved = relieve(&pw_process.arena);
    pw_process_leave();
    return relieved;
}

bool pw_c_refuses_odd_alignments(void) {
    return is_at_least(2, 38);
}
