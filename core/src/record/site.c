// SPDX-License-Identifier: MIT
//
// Who allocates: the return address and how deep the stack is, or the whole stack, by unwind tables
// or by frame pointers.
//
// The depth stands for the way by which the caller was reached. It is counted from the thread's
// stack base in steps of 16 bytes up to 4 KB, then in eight steps for each doubling, so that
// recursion does not make a site of every level; 0 is a stack that is not the thread's own.

#include "os/module.h"
#include "record/log.h"
#include "record/spool_chunk.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#define FARTHEST   ((uintptr_t)64 << 20) // from the base; farther is another stack
#define FINE_STEPS 256                   // of 16 bytes
#define COARSE     3                     // 2^3 steps a doubling
#define ADDRESS    ((UINT64_C(1) << 48) - 1)

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

// The thread's own stack, whichever it is on: a first event may come from a coroutine, on memory
// that ends where nobody can tell, and whose outermost call returns to no code.
void pw_site_find_stack(struct pw_lane *lane) {
    // A thread's control block lies at the start of its stack, but for the first one's. A child of
    // a fork goes on as the thread that it was.
    uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    bool is_first = thread == pw_log.first_thread;
    lane->stack_base = is_first ? (uintptr_t)__libc_stack_end : thread;
    lane->stack_low = lane->stack_high = 0;
    if (pw_log.stacks == PW_STACKS_NONE || pw_log.is_frozen || pw_log.is_closed) {
        return;
    }
    uintptr_t low, high;
    if (pw_os_mapping_of((const void *)lane->stack_base, &low, &high)) {
        // What lies above may be another's, in the same mapping, and go.
        lane->stack_high = lane->stack_base;
        // The first thread's stack grows; nothing else is mapped that near to it.
        lane->stack_low = is_first ? high - pw_os_stack_limit() : low;
    }
}

// --- modules ------------------------------------------------------------------

// The build id of a loaded module, from its notes in memory. Returns its length.
static size_t build_id_of(const struct link_map *map, const char *start, const char *end,
                          const char **id) {
    size_t count, size;
    uintptr_t bias = map->l_addr;
    const ElfW(Phdr) *segments =
        pw_os_module_headers(map, start, (size_t)(end - start), &count, &size);
    bool has_gaps = size == SIZE_MAX;
    for (size_t i = 0; segments && i < count; i++) {
        const char *note = (const char *)(bias + segments[i].p_vaddr);
        const char *last = note + segments[i].p_memsz;
        bool is_inside = has_gaps || (note >= start && last <= end);
        if (segments[i].p_type != PT_NOTE || !is_inside) {
            continue;
        }
        while (last - note > (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *head = (const void *)note;
            const char *name = note + sizeof *head;
            const char *content = name + ((head->n_namesz + 3) & ~(size_t)3);
            if (content > last || head->n_descsz > (size_t)(last - content)) {
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

#define PAGES_BITS 28 // of a module's range
#define PROBES     16

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

void pw_site_forget_modules(void) {
    __atomic_fetch_add(&pw_log.generation, 1, __ATOMIC_ACQ_REL);
}

static uint64_t range_of(const char *start, const char *end) {
    uint64_t pages = pw_pages_for((size_t)(end - start));
    uint64_t most = (UINT64_C(1) << PAGES_BITS) - 1;
    return (uintptr_t)start >> PW_PAGE_SHIFT << PAGES_BITS | (pages < most ? pages : most);
}

static bool overlap(uint64_t one, uint64_t other) {
    uint64_t mask = (UINT64_C(1) << PAGES_BITS) - 1;
    uint64_t first = one >> PAGES_BITS, second = other >> PAGES_BITS;
    return first < second + (other & mask) && second < first + (one & mask);
}

// What was where `own` is now has been unloaded, by the C library itself if nobody has told us: an
// address in it may be in a slot of any lane.
static void displace_others(struct pw_log_module *own) {
    bool displaced = false;
    uint64_t range = __atomic_load_n(&own->range, __ATOMIC_RELAXED);
    for (struct pw_log_module *other = pw_log.modules; other < pw_log.modules + PW_LOG_MODULES;
         other++) {
        uint64_t others = __atomic_load_n(&other->range, __ATOMIC_RELAXED);
        if (other != own && others && overlap(range, others)) {
            __atomic_store_n(&other->range, 0, __ATOMIC_RELAXED);
            displaced = true;
        }
    }
    if (displaced) {
        pw_site_forget_modules();
    }
}

// The place of the module in the table: its own, a free one, or that of a module that was unloaded.
// NULL: there is none.
static struct pw_log_module *find_module(uint64_t key, bool *known) {
    struct pw_log_module *unloaded = NULL;
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        struct pw_log_module *module = &pw_log.modules[(key + probe) % PW_LOG_MODULES];
        uint64_t found = __atomic_load_n(&module->key, __ATOMIC_ACQUIRE);
        *known = found == key;
        if (*known || !found) {
            return module;
        }
        unloaded = __atomic_load_n(&module->range, __ATOMIC_RELAXED) ? unloaded : module;
    }
    return unloaded;
}

// Two threads may find the same one, or the same free place: then one of the two is written down
// once more, which does no harm.
static void remember(struct pw_log_module *module, uint64_t key, uint64_t range, uint32_t load) {
    __atomic_store_n(&module->key, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&module->load, load, __ATOMIC_RELAXED);
    __atomic_store_n(&module->range, range, __ATOMIC_RELEASE);
    displace_others(module);
    __atomic_store_n(&module->key, key, __ATOMIC_RELEASE);
}

#define MOST_ID   64 // bytes of a build id
#define MOST_PATH 1024

// A module as it is loaded now.
struct pw_log_found {
    const char *start, *end, *name, *id;
    size_t id_length;
    uintptr_t bias;
    uint64_t key;
};

// Where the file is. A name that was looked for from the working folder of its time says nothing
// by itself: the kernel knows, where it may be asked, else the folder at the start has to do.
static void find_path(const char *name, const void *start, char *path, size_t size) {
    int cancel = pw_os_cancel_hold();
    bool is_relative = name[0] != '/' && strchr(name, '/');
    size_t length = 0;
    if (is_relative && !pw_log.is_frozen && !pw_log.is_closed) {
        length = pw_os_mapped_file(start, path, size);
    }
    if (is_relative && length == 0) {
        length = strnlen(pw_log.working_folder, size - 2);
        memcpy(path, pw_log.working_folder, length);
        path[length++] = '/';
    } else if (length) {
        name = "";
    }
    size_t rest = strnlen(name, size - 1 - length);
    memcpy(path + length, name, rest);
    path[length + rest] = '\0';
    pw_os_cancel_restore(cancel);
}

// False: there is no room for it.
static bool write_module(struct pw_lane *lane, const struct pw_log_found *found, uint32_t load) {
    uint64_t *words = lane->module_words;
    memset(words, 0, sizeof lane->module_words);
    words[0] = (uintptr_t)found->start;
    words[1] = (uintptr_t)found->end;
    words[2] = found->bias;
    words[3] = load;
    _Static_assert(4 + (MOST_ID + MOST_PATH) / 8 <= PW_LOG_MODULE_WORDS, "one must fit");
    char *text = (char *)(words + 4);
    memcpy(text, found->id, found->id_length);
    find_path(found->name, found->start, text + found->id_length, MOST_PATH);
    size_t bytes = found->id_length + strlen(text + found->id_length) + 1;
    size_t count = 4 + (bytes + 7) / 8;
    if (!pw_log_room(lane, count + 1)) {
        return false;
    }
    pw_log_other(lane, PW_KIND_MODULE, (uint32_t)found->id_length, words, count);
    return true;
}

// 0: there have been too many, or there is no room.
static uint32_t new_load(struct pw_lane *lane, const struct pw_log_found *found,
                         struct pw_log_module *module) {
    uint32_t load = __atomic_add_fetch(&pw_log.loads, 1, __ATOMIC_RELAXED);
    if (load > PW_SPOOL_LOADS) {
        __atomic_store_n(&pw_log.loads, PW_SPOOL_LOADS, __ATOMIC_RELAXED);
        __atomic_fetch_add(&pw_log.header->lost_modules, 1, __ATOMIC_RELAXED);
        return 0;
    }
    if (!write_module(lane, found, load)) {
        return 0;
    }
    if (module) {
        remember(module, found->key, range_of(found->start, found->end), load);
    }
    return load;
}

// The load of the module that `address` is in; writes it down where it is new. 0: none is known.
static uint32_t note_module(struct pw_lane *lane, const void *address) {
    struct pw_log_found found = {0};
    const struct link_map *map = pw_os_module_find(address, &found.start, &found.end);
    if (!map || !map->l_name) {
        return 0;
    }
    // The executable has no name in the loader's list.
    found.name = *map->l_name ? map->l_name : pw_log.header->program;
    found.bias = map->l_addr;
    found.id_length = build_id_of(map, found.start, found.end, &found.id);
    found.id_length = found.id_length > MOST_ID ? 0 : found.id_length;
    const void *place[] = {map, found.start, found.end};
    found.key = mix(UINT64_C(14695981039346656037), place, sizeof place);
    found.key = mix(found.key, found.name, strlen(found.name));
    found.key = mix(found.key, found.id, found.id_length) | 1;
    bool known;
    struct pw_log_module *module = find_module(found.key, &known);
    if (!module || !known) {
        return new_load(lane, &found, module);
    }
    uint32_t load = __atomic_load_n(&module->load, __ATOMIC_RELAXED);
    if (!__atomic_load_n(&module->range, __ATOMIC_RELAXED)) { // loaded once more
        __atomic_store_n(&module->range, range_of(found.start, found.end), __ATOMIC_RELAXED);
        displace_others(module);
    }
    return load;
}

// --- sites --------------------------------------------------------------------

#define WAYS 8 // a line of the cache

// The slot of what `key` stands for: its own, a free one, or another's, which has been out of luck.
// Each key has several, so that two stacks of one program do not take turns in one slot: to write a
// deep stack down once more is dear.
static uint32_t slot_of(const struct pw_lane *lane, uint64_t key) {
    uint32_t hash = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 54);
    uint32_t slot = hash;
    for (uint32_t way = 0; way < WAYS; way++) {
        uint32_t candidate = hash ^ way;
        if (lane->slots[candidate] == key) {
            return candidate;
        }
        slot = lane->slots[slot] && !lane->slots[candidate] ? candidate : slot;
    }
    return slot;
}

static void note_site(struct pw_lane *lane, uint32_t slot, uint64_t key, const void *site) {
    uint32_t load = note_module(lane, site);
    if (pw_log_room(lane, 2)) {
        pw_log_other(lane, PW_KIND_SITE, slot | load << PW_SPOOL_LOAD_AT, &key, 1);
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
    while (count < PW_LOG_USUAL_FRAMES && lane->stack_high && at >= lane->stack_low &&
           at % sizeof at == 0 && at <= lane->stack_high - 2 * sizeof at) {
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

// `stack` may be the lane's own words, which hold what is written down afterwards.
static bool note_stack(struct pw_lane *lane, uint32_t slot, const uint64_t *stack, size_t count) {
    bool is_held = pw_hold_libraries();
    uint64_t load = 0, page = 0; // of the frame before: recursion is all in one
    for (size_t i = 0; i < count; i++) {
        bool may_read = i == 0 || is_held;
        if (!may_read) {
            load = 0;
        } else if (i == 0 || stack[i] >> PW_PAGE_SHIFT != page) {
            load = note_module(lane, (const void *)(uintptr_t)stack[i]);
        }
        page = stack[i] >> PW_PAGE_SHIFT;
        lane->stack_words[i] = (stack[i] & ADDRESS) | load << 48;
    }
    if (is_held) {
        pw_hold_release();
    }
    if (!pw_log_room(lane, count + 1)) {
        return false;
    }
    pw_log_other(lane, PW_KIND_STACK, slot, lane->stack_words, count);
    return true;
}

static uint32_t stack_slot(struct pw_lane *lane, const void *site, const void *frame) {
    const uint64_t *stack = lane->stack_words;
    size_t count = 0;
    if (pw_log.stacks == PW_STACKS_BY_TABLES) {
        count = pw_unwind(lane, site, frame, &stack);
    }
    if (count == 0) {
        stack = lane->stack_words;
        count = walk(lane, frame, site, lane->stack_words);
    }
    uint64_t key = count;
    for (size_t i = 0; i < count; i++) {
        key = (key ^ stack[i]) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 32;
    }
    uint32_t slot = slot_of(lane, key);
    if (lane->slots[slot] != key && note_stack(lane, slot, stack, count)) {
        lane->slots[slot] = key;
    }
    return slot;
}

// What the slots stand for, they stand for by addresses.
static void forget(struct pw_lane *lane) {
    lane->generation = __atomic_load_n(&pw_log.generation, __ATOMIC_ACQUIRE);
    memset(lane->slots, 0, sizeof lane->slots);
    pw_unwind_forget(lane);
}

uint32_t pw_site_slot(struct pw_lane *lane, const void *site, const void *frame) {
    if (__builtin_expect(lane->generation != pw_log.generation, 0)) {
        forget(lane);
    }
    if (pw_log.stacks != PW_STACKS_NONE) {
        return stack_slot(lane, site, frame);
    }
    uint64_t key = (uintptr_t)site | (uint64_t)depth_of(lane, frame) << 48;
    uint32_t slot = slot_of(lane, key);
    if (__builtin_expect(lane->slots[slot] != key, 0)) {
        note_site(lane, slot, key, site);
    }
    return slot;
}
