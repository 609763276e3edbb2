// SPDX-License-Identifier: MIT
//
// Who allocates: the return address and how deep the stack is, or the whole stack, by unwind tables
// or by frame pointers.
//
// The depth stands for the way by which the caller was reached. It is counted from the thread's
// stack base in steps of 16 bytes up to 4 KB, then in eight steps for each doubling, so that
// recursion does not make a site of every level; 0 is a stack that is not the thread's own.

#include "front/record_log.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#define FARTHEST   ((uintptr_t)64 << 20) // from the base; farther is another stack
#define FINE_STEPS 256                   // of 16 bytes
#define COARSE     3                     // 2^3 steps a doubling

extern void *__libc_stack_end;

static uint32_t depth_of(const struct pw_lane *lane, const void *frame) {
    uintptr_t distance = lane->stack_base - (uintptr_t)frame;
    if (distance >= FARTHEST) {
        return 0;
    }
    uint32_t steps = (uint32_t)(distance >> 4);
    if (steps < FINE_STEPS) {
        return steps + 1;
    }
    uint32_t doubling = 31 - (uint32_t)__builtin_clz(steps);
    uint32_t step = steps >> (doubling - COARSE) & ((1 << COARSE) - 1);
    return FINE_STEPS + 1 + ((doubling - 8) << COARSE) + step;
}

void pw_site_find_stack(struct pw_lane *lane) {
    bool is_main = pw_os_thread_id() == pw_os_pid();
    // A thread's control block lies at the start of its stack.
    lane->stack_base =
        is_main ? (uintptr_t)__libc_stack_end : (uintptr_t)__builtin_thread_pointer();
    lane->stack_low = lane->stack_high = 0;
    if (pw_log.stacks == PW_STACKS_NONE) {
        return;
    }
    uintptr_t low, high, here = (uintptr_t)__builtin_frame_address(0);
    if (pw_os_mapping_of((const void *)here, &low, &high)) {
        // What lies above the thread's own stack may be another's, in the same mapping, and go.
        bool has_base = lane->stack_base > here && lane->stack_base < high;
        lane->stack_high = has_base ? lane->stack_base : high;
        // The first thread's stack grows; nothing else is mapped that near to it.
        lane->stack_low = is_main ? high - pw_os_stack_limit() : low;
    }
}

// --- modules ------------------------------------------------------------------

// The build id of a loaded module, from its notes in memory. Returns its length.
static size_t build_id_of(const char *start, const char *end, uintptr_t bias, const char **id) {
    const ElfW(Ehdr) *file = (const void *)start;
    if ((size_t)(end - start) < sizeof *file || memcmp(start, ELFMAG, SELFMAG) != 0 ||
        file->e_phoff + file->e_phnum * sizeof(ElfW(Phdr)) > PW_PAGE) {
        return 0;
    }
    const ElfW(Phdr) *segments = (const void *)(start + file->e_phoff);
    for (int i = 0; i < file->e_phnum; i++) {
        const char *note = (const char *)(bias + segments[i].p_vaddr);
        const char *last = note + segments[i].p_memsz;
        if (segments[i].p_type != PT_NOTE || note < start || last > end) {
            continue;
        }
        while ((size_t)(last - note) > sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *head = (const void *)note;
            const char *name = note + sizeof *head;
            const char *content = name + ((head->n_namesz + 3) & ~(size_t)3);
            if (content + head->n_descsz > last) {
                break;
            }
            if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
                memcmp(name, "GNU", 4) == 0) {
                *id = content;
                return head->n_descsz;
            }
            note = content + ((head->n_descsz + 3) & ~(size_t)3);
        }
    }
    return 0;
}

static uint64_t hash_text(const char *text) {
    uint64_t hash = 14695981039346656037U;
    while (*text) {
        hash = (hash ^ (unsigned char)*text++) * 1099511628211U;
    }
    return hash | 1;
}

// Another one may have been loaded where an unloaded one was: the name counts as well.
static bool is_known(const struct link_map *map, uint64_t name) {
    uint32_t count = __atomic_load_n(&pw_log.module_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < PW_LOG_MAX_MODULES; i++) {
        if (pw_log.modules[i].map == map && pw_log.modules[i].name == name) {
            return true;
        }
    }
    return false;
}

static void remember(const struct link_map *map, uint64_t name) {
    // Two threads may find the same one: it is written down twice, which does no harm.
    uint32_t place = __atomic_fetch_add(&pw_log.module_count, 1, __ATOMIC_ACQ_REL);
    if (place < PW_LOG_MAX_MODULES) {
        pw_log.modules[place].map = map;
        pw_log.modules[place].name = name;
    } else {
        __atomic_store_n(&pw_log.module_count, PW_LOG_MAX_MODULES, __ATOMIC_RELEASE);
    }
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// Takes no lock, unlike dladdr: the program may be inside the loader.
static const struct link_map *module_of(const void *address, const char **start, const char **end) {
    struct dl_find_object found;
    if (_dl_find_object((void *)(uintptr_t)address, &found) != 0) {
        return NULL;
    }
    *start = found.dlfo_map_start;
    *end = found.dlfo_map_end;
    return found.dlfo_link_map;
}
#else
static const struct link_map *module_of(const void *address, const char **start, const char **end) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP)) {
        return NULL;
    }
    *start = info.dli_fbase;
    *end = (const char *)address + 1;
    return map;
}
#endif

static void note_module(struct pw_lane *lane, const void *address) {
    const char *start, *end, *id = NULL;
    const struct link_map *map = module_of(address, &start, &end);
    const char *path = map ? map->l_name : NULL;
    // The executable has no name in the loader's list.
    if (path && !*path) {
        path = pw_log.header->program;
    }
    if (!path || is_known(map, hash_text(path))) {
        return;
    }
    uint64_t words[160] = {(uintptr_t)start, (uintptr_t)end, map->l_addr, lane->stamp};
    char *text = (char *)(words + 4);
    size_t id_length = build_id_of(start, end, map->l_addr, &id);
    size_t path_length = strlen(path);
    if (id_length > 64) {
        id_length = 0;
    }
    if (id_length) {
        memcpy(text, id, id_length);
    }
    size_t room = sizeof words - 4 * sizeof *words - id_length - 1;
    memcpy(text + id_length, path, path_length < room ? path_length : room);
    size_t bytes = id_length + (path_length < room ? path_length : room) + 1;
    size_t count = 4 + (bytes + 7) / 8;
    if (pw_log_room(lane, count + 1)) {
        pw_log_other(lane, PW_KIND_MODULE, (uint32_t)id_length, words, count);
        remember(map, hash_text(path));
    }
}

// --- sites --------------------------------------------------------------------

static uint32_t slot_of(uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}

static void note_site(struct pw_lane *lane, uint32_t slot, uint64_t key, const void *site) {
    note_module(lane, site);
    if (pw_log_room(lane, 2)) {
        pw_log_other(lane, PW_KIND_SITE, slot, &key, 1);
        lane->slots[slot] = key;
    }
}

// Frames must lie on the thread's stack, each above the one before: code without frame pointers
// leaves anything in their register.
static size_t walk(const struct pw_lane *lane, const void *frame, const void *site,
                   uint64_t *stack) {
    size_t count = 1;
    stack[0] = (uintptr_t)site;
    uintptr_t at = (uintptr_t)frame;
    while (count < PW_LOG_MAX_FRAMES && at >= lane->stack_low && at % sizeof at == 0 &&
           at + 2 * sizeof at <= lane->stack_high) {
        uintptr_t next = ((const uintptr_t *)at)[0];
        uintptr_t back = ((const uintptr_t *)at)[1];
        if (back < PW_PAGE) {
            break;
        }
        // The first frame is our own: it returns to `site`.
        if (at != (uintptr_t)frame) {
            stack[count++] = back;
        }
        if (next <= at) {
            break;
        }
        at = next;
    }
    return count;
}

static uint32_t stack_slot(struct pw_lane *lane, const void *site, const void *frame) {
    uint64_t walked[PW_LOG_MAX_FRAMES];
    const uint64_t *stack = walked;
    size_t count = 0;
    if (pw_log.stacks == PW_STACKS_BY_TABLES) {
        count = pw_unwind(lane, site, frame, &stack);
    }
    if (count == 0) {
        stack = walked;
        count = walk(lane, frame, site, walked);
    }
    uint64_t key = count;
    for (size_t i = 0; i < count; i++) {
        key = (key ^ stack[i]) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 32;
    }
    uint32_t slot = slot_of(key);
    if (lane->slots[slot] != key) {
        for (size_t i = 0; i < count; i++) {
            note_module(lane, (const void *)(uintptr_t)stack[i]);
        }
        if (pw_log_room(lane, count + 1)) {
            pw_log_other(lane, PW_KIND_STACK, slot, stack, count);
            lane->slots[slot] = key;
        }
    }
    return slot;
}

uint32_t pw_site_slot(struct pw_lane *lane, const void *site, const void *frame) {
    if (pw_log.stacks != PW_STACKS_NONE) {
        return stack_slot(lane, site, frame);
    }
    uint64_t key = (uintptr_t)site | (uint64_t)depth_of(lane, frame) << 48;
    uint32_t slot = slot_of(key);
    if (__builtin_expect(lane->slots[slot] != key, 0)) {
        note_site(lane, slot, key, site);
    }
    return slot;
}
