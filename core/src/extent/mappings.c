// SPDX-License-Identifier: MIT
//
// The reserve of mappings under vm.max_map_count (extent.h). Its pages are never read or written.
#include "extent/extent.h"

// Another protection for one page inside a mapping makes three of one.
#define SPLITS   (PW_MAPPINGS_RESERVE / 2)
#define RETRY_MS 1000u
// The kernel refuses some calls (mremap) with three mappings left: fewer than four are short.
#define PROBES 2u
// A call may fail for a moment; where a limit was lowered, it always does.
#define MEND_ATTEMPTS 4u
// Twice the reserve can be split: to probe while it is held, and to see that it was had with ease.
#define RESERVE_PAGES (2 * 2 * SPLITS + 1)

static char *split_page(const struct pw_mappings *mappings, uint32_t split) {
    return mappings->reserve + (size_t)(2 * split + 1) * PW_PAGE;
}

static bool split(const struct pw_mappings *mappings, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!pw_os_split_reserved(split_page(mappings, first + i), PW_PAGE)) {
            return false;
        }
    }
    return true;
}

// Joining begins and ends at borders of mappings, so it needs none itself.
static void join(const struct pw_mappings *mappings, uint32_t first, uint32_t count) {
    pw_os_join_reserved(split_page(mappings, first), (size_t)(2 * count - 1) * PW_PAGE);
}

// The first time the reserve alone must be there, later as much again: otherwise the few mappings
// that sharing could take would be given up at once.
static bool take(struct pw_mappings *mappings) {
    if (!mappings->reserve) {
        mappings->reserve = pw_os_map_reserved(RESERVE_PAGES * PW_PAGE);
    }
    if (!mappings->reserve) {
        return false;
    }
    uint32_t wanted = mappings->given_up ? 2 * SPLITS : SPLITS;
    bool taken = split(mappings, 0, wanted);
    if (!taken) {
        join(mappings, 0, wanted);
    } else if (wanted > SPLITS) {
        join(mappings, SPLITS, SPLITS);
    }
    return taken;
}

// Read without the lock by whoever is about to ask for relief.
static void set_held(struct pw_mappings *mappings, bool held) {
    __atomic_store_n(&mappings->held, held, __ATOMIC_RELAXED);
}

static void give_up(struct pw_mappings *mappings) {
    set_held(mappings, false);
    mappings->given_up = true;
    mappings->retry_ms = pw_os_now_ms() + RETRY_MS;
}

bool pw_mappings_may_rise(struct pw_arena *arena) {
    struct pw_mappings *mappings = &arena->mappings;
    if (mappings->held || arena->sealed) {
        return mappings->held;
    }
    if (!mappings->given_up || pw_os_now_ms() >= mappings->retry_ms) {
        set_held(mappings, take(mappings));
        if (!mappings->held) {
            give_up(mappings);
        }
    }
    if (!mappings->held && !mappings->reserve) {
        PW_COUNT(arena->stats, fallback_map, 1); // of address space
    } else if (!mappings->held) {
        PW_COUNT(arena->stats, fallback_map_count, 1);
    }
    return mappings->held;
}

bool pw_arena_may_move(struct pw_arena *arena, uint32_t pages) {
    uint32_t most = pages < PW_MOVED_SMALL_PAGES ? PW_MOVED_SMALL_MOST : PW_MOVED_MOST;
    return arena->mappings.moved < most && pw_mappings_may_rise(arena);
}

void pw_arena_count_moved(struct pw_arena *arena, struct pw_extent *extent, uint32_t moved) {
    arena->mappings.moved += moved;
    extent->moved += moved;
}

bool pw_mappings_relieve(struct pw_arena *arena) {
    struct pw_mappings *mappings = &arena->mappings;
    if (!mappings->held) {
        return false;
    }
    bool enough = split(mappings, SPLITS, PROBES);
    join(mappings, SPLITS, PROBES);
    if (enough) {
        return false; // it failed for another reason
    }
    join(mappings, 0, SPLITS);
    give_up(mappings);
    PW_COUNT(arena->stats, fallback_map_count, 1);
    return true;
}

void pw_mappings_end(struct pw_arena *arena) {
    if (arena->mappings.reserve) {
        pw_os_unmap(arena->mappings.reserve, RESERVE_PAGES * PW_PAGE);
    }
    set_held(&arena->mappings, false);
    arena->mappings.reserve = NULL;
}

static bool map_blank(struct pw_arena *arena, char *address, size_t size) {
    return pw_os_map_blank(address, size) ||
           (pw_mappings_relieve(arena) && pw_os_map_blank(address, size));
}

// Before Linux 6.12 a mapping that is refused may have unmapped what it was to replace.
bool pw_arena_blank(struct pw_arena *arena, char *address, size_t size) {
    if (arena->sealed) {
        return false;
    }
    if (map_blank(arena, address, size)) {
        return true;
    }
    if (pw_os_is_mapped(address, size)) {
        return false;
    }
    if (pw_arena_mend(arena, address, size)) {
        return true;
    }
    arena->hole = address;
    return false;
}

bool pw_arena_mend(struct pw_arena *arena, char *address, size_t size) {
    for (unsigned attempt = 0; !arena->sealed && attempt < MEND_ATTEMPTS; attempt++) {
        if (map_blank(arena, address, size) ||
            (pw_os_is_mapped(address, size) && pw_os_protect(address, size, true) &&
             pw_os_discard(address, size))) {
            return true;
        }
        PW_COUNT(arena->stats, fallback_map, 1);
    }
    // What somebody else maps into a hole would be taken for ours.
    if (!arena->sealed && !pw_os_is_mapped(address, size)) {
        pw_os_map_unusable(address, size);
    }
    return false;
}

bool pw_arena_abandon(char *address, size_t size) {
    return pw_os_map_unusable(address, size) || pw_os_unmap(address, size);
}

bool pw_arena_move(struct pw_arena *arena, char *from, size_t size, char *to) {
    if (pw_os_move(from, size, to)) {
        return true;
    }
    PW_COUNT(arena->stats, fallback_move, 1);
    if (!pw_arena_mend(arena, to, size)) {
        arena->hole = to;
    }
    return false;
}

bool pw_arena_move_larger(struct pw_arena *arena, char *from, size_t size, char *to,
                          size_t larger) {
    if (pw_os_move_larger(from, size, to, larger)) {
        return true;
    }
    PW_COUNT(arena->stats, fallback_move, 1);
    if (!pw_arena_mend(arena, to, larger)) {
        arena->hole = to;
    }
    return false;
}

bool pw_arena_map_again(struct pw_arena *arena, char *address, size_t size) {
    bool occupied;
    if (pw_os_map_new(address, size, &occupied) ||
        (!occupied && pw_mappings_relieve(arena) && pw_os_map_new(address, size, &occupied))) {
        return true;
    }
    PW_COUNT(arena->stats, fallback_map, 1);
    return false;
}
