// SPDX-License-Identifier: MIT
//
// Pages that hold no block: inside segments that others of whose pages do, and whole segments.
// Which blocks are free is not written into the blocks, so such pages can go and come back (as
// zero, which nobody relies on) without anything else being changed.
#include "general/general.h"

#define MUCH_FREED ((uint64_t)2 << 20)

static bool are_free(const uint64_t *map, struct pw_block_range blocks) {
    for (unsigned word = blocks.first / 64; word <= blocks.last / 64; word++) {
        uint64_t wanted = pw_bits_of_word(blocks, word);
        if ((map[word] & wanted) != wanted) {
            return false;
        }
    }
    return true;
}

// Pages in which no block lies, not even in part, each a bit.
static uint32_t pages_without_block(const struct pw_class_info *info,
                                    const struct pw_segment *segment) {
    uint32_t pages = 0;
    for (unsigned page = 0; page < info->pages; page++) {
        if (are_free(segment->map, pw_blocks_on_page(info, page))) {
            pages |= (uint32_t)1 << page;
        }
    }
    return pages;
}

// Give runs of pages back to the kernel; returns those that went.
static uint32_t give_back(struct pw_general *general, struct pw_segment *segment, uint32_t pages) {
    uint32_t gone = 0;
    while (pages) {
        unsigned first = (unsigned)__builtin_ctz(pages);
        uint32_t rest = ~(pages >> first);
        unsigned count = rest ? (unsigned)__builtin_ctz(rest) : 32 - first;
        uint32_t run = (count < 32 ? ((uint32_t)1 << count) - 1 : ~(uint32_t)0) << first;
        if (pw_os_discard(segment->start + first * PW_PAGE, count * PW_PAGE)) {
            gone |= run;
        } else {
            PW_COUNT(general->stats, fallback_discard, 1);
        }
        pages &= ~run;
    }
    return gone;
}

static size_t look_at(struct pw_general *general, const struct pw_class_info *info,
                      struct pw_segment *segment) {
    if ((size_t)segment->free * info->size < PW_PAGE && segment->free < segment->blocks) {
        return 0;
    }
    uint32_t pages = pages_without_block(info, segment) & ~segment->absent;
    uint32_t gone = give_back(general, segment, pages & segment->idle);
    segment->absent |= gone;
    segment->idle = pages & ~gone;
    return (size_t)__builtin_popcount(gone) * PW_PAGE;
}

static uint64_t freed_bytes(const struct pw_general *general, unsigned class_number) {
    const struct pw_bin *bin = &general->bins[class_number];
    int64_t blocks = __atomic_load_n(&bin->free, __ATOMIC_RELAXED) -
                     __atomic_load_n(&bin->lowest, __ATOMIC_RELAXED);
    return blocks > 0 ? (uint64_t)blocks * general->info[class_number].size : 0;
}

bool pw_general_has_shrunk(const struct pw_general *general, unsigned class_number) {
    return freed_bytes(general, class_number) >= MUCH_FREED;
}

uint64_t pw_general_idle_pages(const struct pw_general *general) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        bytes += freed_bytes(general, i);
    }
    return bytes / PW_PAGE + __atomic_load_n(&general->idle_pages, __ATOMIC_RELAXED);
}

// By another thread, in the middle of a look too.
static bool is_sealed(const struct pw_general *general) {
    return __atomic_load_n(&general->arena->sealed, __ATOMIC_RELAXED);
}

static size_t look_at_bin(struct pw_general *general, unsigned class_number, uint64_t *idle) {
    const struct pw_class_info *info = &general->info[class_number];
    struct pw_bin *bin = &general->bins[class_number];
    struct pw_segment *emptied = NULL;
    size_t given = 0;
    pw_bin_enter(bin);
    for (unsigned list = 0; list < PW_SEGMENT_LISTS; list++) {
        struct pw_segment *segment = bin->lists[list];
        while (segment && !is_sealed(general)) {
            struct pw_segment *next = segment->next;
            given += look_at(general, info, segment);
            *idle += (uint64_t)__builtin_popcount(segment->idle);
            if (segment->free == segment->blocks &&
                segment->idle == 0) { // kept, and not used since
                pw_bin_remove(bin, segment);
                bin->empties--;
                segment->next = emptied;
                emptied = segment;
            }
            segment = next;
        }
    }
    __atomic_store_n(&bin->lowest, bin->free, __ATOMIC_RELAXED);
    pw_bin_leave(bin);
    while (emptied) {
        struct pw_segment *next = emptied->next;
        pw_segment_release(general, emptied);
        emptied = next;
    }
    return given;
}

// A look gives pages back under the bin's lock, and asks before each segment.
void pw_general_wait_for_looks(struct pw_general *general) {
    if (!pw_general_enter(general)) {
        return;
    }
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        pw_bin_enter(&general->bins[i]);
        pw_bin_leave(&general->bins[i]);
    }
    pw_general_leave();
}

size_t pw_general_look(struct pw_general *general) {
    size_t given = 0;
    uint64_t idle = 0;
    for (unsigned i = 0; !is_sealed(general) && i < PW_GENERAL_CLASSES; i++) {
        given += look_at_bin(general, i, &idle);
    }
    __atomic_store_n(&general->idle_pages, idle, __ATOMIC_RELAXED);
    if (!is_sealed(general)) {
        pw_shelf_look(general, false);
    }
    PW_COUNT(general->stats, segment_idle_bytes, given);
    return given;
}
