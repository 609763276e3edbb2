// SPDX-License-Identifier: MIT
//
// What blocks and other memory cost: public functions for reports.

#include "block/describe.h"
#include "process/lock.h"
#include "process/state.h"

#define UNIT_SHIFT 21 // 2 MB

static void describe(struct pw_process *process, struct pw_block_info *info,
                     const struct pw_extent *extent) {
    uint64_t number = pw_extent_number(&process->arena, extent);
    *info = (struct pw_block_info){
        .id = number,
        .address = pw_extent_address(&process->arena, extent) + extent->data_offset,
        .size = extent->user_size,
        .page_bytes = (size_t)extent->pages * PW_PAGE,
        .snapshot = extent->snapshot,
        .huge_shift = extent->hugetlb      ? extent->hugetlb
                      : extent->huge_pages ? UNIT_SHIFT
                                           : 0,
        .from_hugetlb = extent->hugetlb > 0,
        .locked = extent->locked || extent->hugetlb > 0,
    };
}

bool pw_describe_block(struct pw_process *process, const void *address,
                       struct pw_block_info *info) {
    if (!pw_gate_contains(address) || !pw_process_enter()) {
        return false;
    }
    const struct pw_extent *extent = pw_arena_find(&process->arena, address);
    if (extent) {
        describe(process, info, extent);
    }
    pw_process_leave();
    return extent != NULL;
}

struct list {
    struct pw_process *process;
    struct pw_block_info *blocks;
    size_t room, count;
};

static void add(void *context, struct pw_arena *arena, struct pw_extent *extent) {
    struct list *list = context;
    (void)arena;
    if (list->count < list->room) {
        describe(list->process, &list->blocks[list->count], extent);
    }
    list->count++;
}

size_t pw_describe_blocks(struct pw_process *process, struct pw_block_info *blocks, size_t room) {
    struct list list = {process, blocks, room, 0};
    if (!process->arena.base || !pw_process_enter()) {
        return 0;
    }
    pw_arena_each(&process->arena, add, &list);
    pw_process_leave();
    return list.count;
}

// The page table is asked without the heap's lock where Pagewise was never switched on.
static bool tally(struct pw_process *process, char *start, char *end, struct pw_os_tally *result) {
    struct pw_os_pagemap own, *pagemap = &process->share.pagemap;
    bool shared = process->arena.base != NULL;
    if (shared && !pw_process_enter()) {
        return false;
    }
    if (!shared) {
        pagemap = &own;
        pw_os_pagemap_open(pagemap);
    }
    bool known = pw_os_pagemap_tally(pagemap, start, end, result);
    if (shared) {
        pw_process_leave();
    } else {
        pw_os_close(&own.file);
    }
    return known;
}

static bool add_pages(struct pw_process *process, struct pw_page_cost *cost, char *start,
                      char *end) {
    struct pw_os_tally pages = {.huge_known = cost->huge_known};
    if (start < end && !tally(process, start, end, &pages)) {
        return false;
    }
    cost->own += pages.exclusive * PW_PAGE;
    cost->shared += pages.shared * PW_PAGE;
    cost->swapped += pages.swapped * PW_PAGE;
    cost->absent +=
        (uint64_t)(end - start) - (pages.exclusive + pages.shared + pages.swapped) * PW_PAGE;
    cost->huge += pages.huge * PW_PAGE;
    cost->huge_known &= pages.huge_known;
    return true;
}

// The part of a range that is on a snapshot. Its pages need not be mapped yet, and then look
// absent, but are there all the same.
struct shared_part {
    char *start, *end;
    uint64_t own, shared; // pages
};

static struct shared_part find_shared(struct pw_process *process, char *start, char *end) {
    struct shared_part part = {end, end, 0, 0};
    if (!pw_gate_contains(start) || !pw_process_enter()) {
        return part;
    }
    const struct pw_extent *extent = pw_arena_find(&process->arena, start);
    if (extent && extent->snapshot) {
        char *block = pw_extent_address(&process->arena, extent);
        char *first = block + (size_t)extent->share_first * PW_PAGE;
        char *last = first + (size_t)extent->share_pages * PW_PAGE;
        first = start > first ? start : first;
        last = end < last ? end : last;
        uint32_t pages = last > first ? (uint32_t)((last - first) / (ptrdiff_t)PW_PAGE) : 0;
        uint32_t page = (uint32_t)((first - block) / (ptrdiff_t)PW_PAGE);
        uint64_t written = 0;
        if (pages && pw_share_count_private(&process->share, extent, page, pages, &written)) {
            bool alone = pw_share_owners(&process->share, extent) == 1;
            part = (struct shared_part){first, last, alone ? pages : written,
                                        alone ? 0 : pages - written};
        }
    }
    pw_process_leave();
    return part;
}

bool pw_describe_cost(struct pw_process *process, const void *address, size_t size,
                      struct pw_page_cost *cost) {
    char *start = (char *)((uintptr_t)address & ~(PW_PAGE - 1));
    char *end = (char *)(((uintptr_t)address + size + PW_PAGE - 1) & ~(PW_PAGE - 1));
    *cost = (struct pw_page_cost){.huge_known = true};
    if (size == 0) {
        return true;
    }
    if (end < start) {
        return false; // no such range
    }
    struct shared_part part = find_shared(process, start, end);
    cost->own = part.own * PW_PAGE;
    cost->shared = part.shared * PW_PAGE;
    return add_pages(process, cost, start, part.start) && add_pages(process, cost, part.end, end);
}

size_t pw_describe_collapse(struct pw_process *process, const void *address, size_t size) {
    uintptr_t start = ((uintptr_t)address + PW_HUGE_PAGE - 1) & ~(PW_HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)address + size) & ~(PW_HUGE_PAGE - 1);
    struct pw_page_cost cost;
    size_t asked = 0;
    // Unit by unit: one that cannot be gathered does not keep the others from it.
    for (uintptr_t unit = start; unit < end; unit += PW_HUGE_PAGE) {
        asked += pw_os_collapse((void *)unit, PW_HUGE_PAGE) ? PW_HUGE_PAGE : 0;
    }
    if (end <= start || !pw_describe_cost(process, (void *)start, end - start, &cost) ||
        !cost.huge_known) {
        return asked;
    }
    return cost.huge;
}
