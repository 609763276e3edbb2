// SPDX-License-Identifier: MIT
#include "block/mapped.h"
#include "block/block.h"
#include "block/fate.h"
#include "huge/huge.h"
#include "os/numbers.h"
#include "process/large_pages.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/runtime.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define RANGES     16u // of process_madvise, read at a time

enum change {
    NO_CHANGE,
    HUGE_PAGES, // as we advise ourselves: neither contents nor anything that a snapshot would lose
    RECLAIMS,   // changes no byte; the kernel refuses it on locked pages and on the hugetlb pool's
    EMPTIES,    // the pages read zero afterwards, but for those that are locked
    EMPTIES_LOCKED, // these as well
    ALTERS,         // what is mapped differs from other memory until it is mapped anew
    LOCKS,          // the same, and what we had locked is unlocked first
    NEEDS_OWN,      // the same, and works on no snapshot: not at all, or on the other pages alone
    WATCHES,        // the same, by a userfaultfd
    REPLACES,       // other pages, or none, take their place
    MOVES,          // the same, and these go elsewhere
};

struct range {
    char *start, *end; // whole pages
    enum change change;
    const struct pw_caller *caller;
};

static bool is_emptied(struct range range) {
    return range.change == EMPTIES || range.change == EMPTIES_LOCKED;
}

// --- blocks ----------------------------------------------------------------------

static struct range meet(struct pw_process *process, struct range range,
                         const struct pw_extent *extent) {
    char *start = pw_extent_address(&process->arena, extent);
    char *end = start + (size_t)extent->pages * PW_PAGE;
    range.start = range.start > start ? range.start : start;
    range.end = range.end < end ? range.end : end;
    return range;
}

static void mark(struct pw_process *process, struct pw_extent *extent, struct range range) {
    bool is_header = range.start <= pw_extent_address(&process->arena, extent);
    PW_COUNT(&process->stats, blocks_altered, extent->altered == PW_NOT_ALTERED);
    pw_extent_alter(extent, is_header);
    extent->watched_by_file |= range.change == WATCHES;
}

// Make a block that shares pages ordinary memory, with its bytes. False: it shares them still.
static bool leave_snapshot(struct pw_process *process, struct pw_extent *extent,
                           const struct pw_caller *caller) {
    if (!extent->snapshot) {
        return true;
    }
    pw_fate_ends(process, extent);
    return !extent->altered && !pw_extent_holds_stack(&process->arena, extent) &&
           pw_is_quiet(caller) && pw_share_leave(&process->share, extent);
}

static bool covers_share(struct pw_process *process, struct range range,
                         const struct pw_extent *extent) {
    char *start =
        pw_extent_address(&process->arena, extent) + (size_t)extent->share_first * PW_PAGE;
    return range.start <= start && range.end >= start + (size_t)extent->share_pages * PW_PAGE;
}

// What is emptied is made memory of its own, as the kernel would show the snapshot's bytes. A block
// that is on a snapshot in part can no longer be copied from.
static bool empty(struct pw_process *process, struct pw_extent *extent, struct range range) {
    extent->sparse = true;
    bool of_snapshot = extent->snapshot || extent->of_file;
    if (extent->snapshot && !extent->altered && covers_share(process, range, extent)) {
        pw_fate_ends(process, extent);
        of_snapshot = !pw_share_drop(&process->share, extent);
    } else if (extent->snapshot) {
        of_snapshot = !leave_snapshot(process, extent, range.caller);
    }
    if (!of_snapshot) {
        return true;
    }
    mark(process, extent, range);
    return pw_share_empty(&process->share, range.start, range.end, range.change == EMPTIES_LOCKED);
}

// Released by the C library where we do not see it: nothing is there, not even a header to read.
// In a sandbox it is not asked: the call could end the program.
static bool is_gone(struct pw_process *process, const struct pw_extent *extent) {
    return extent->data_offset && !process->sealed &&
           pw_os_has_hole(pw_extent_address(&process->arena, extent), PW_PAGE);
}

// What lock=on has locked, the whole block: before the program's first call, so that no lock of its
// own is there yet. Where the program has locked all memory, the lock is its wish as well.
static void unlock_ours(struct pw_process *process, struct pw_extent *extent) {
    if (extent->locked && !process->locks_all && !process->sealed) {
        pw_os_unlock(pw_extent_address(&process->arena, extent), (size_t)extent->pages * PW_PAGE);
        extent->locked = false;
    }
}

// Would part of a large page of the pool keep bytes that the program is to lose, or to find
// elsewhere, with no word from the kernel?
static bool would_keep_bytes(struct pw_process *process, const struct pw_extent *extent,
                             struct range range) {
    return extent->hugetlb && (is_emptied(range) || range.change == MOVES) &&
           pw_huge_cuts_page(&process->arena, extent, range.start, range.end);
}

// What our options did to a block the program knows nothing of: pages of the hugetlb pool change as
// a whole, and locked ones are not emptied. So it becomes ordinary memory first. To have pages
// reclaimed is not worth a copy. False: the call may not be made.
static bool leave_special_pages(struct pw_process *process, struct pw_extent *extent,
                                struct range range) {
    if (range.change == HUGE_PAGES || (range.change == RECLAIMS && extent->hugetlb)) {
        return true;
    }
    if (extent->hugetlb) {
        pw_process_leave_hugetlb_of(extent, range.caller);
    }
    if (range.change != ALTERS) {
        unlock_ours(process, extent);
    }
    return !would_keep_bytes(process, extent, range);
}

// Returns whether the call may be made.
static bool change_block(struct pw_process *process, struct pw_extent *extent, struct range range) {
    if (is_gone(process, extent)) {
        if (range.change >= REPLACES) { // what is mapped there from now on is the program's
            pw_block_give_up(process, extent);
        }
        return true;
    }
    pw_block_repair(process, extent);
    range = meet(process, range, extent);
    if (!leave_special_pages(process, extent, range)) {
        return false;
    }
    switch (range.change) {
    case HUGE_PAGES:
        process->arena.has_huge = true;
        return true;
    case RECLAIMS:
        return true;
    case EMPTIES:
    case EMPTIES_LOCKED:
        return empty(process, extent, range);
    case MOVES: // their snapshot could end before they do
    case NEEDS_OWN:
    case WATCHES:
        if (!leave_snapshot(process, extent, range.caller)) {
            return false;
        }
        break;
    default:
        leave_snapshot(process, extent,
                       range.caller); // what is mapped can be altered or replaced all the same
        break;
    }
    mark(process, extent, range);
    return true;
}

// --- all that is ours --------------------------------------------------------------

// Free pages: taken out of the pool, so that no block is put there before the call has been made.
// Where something else is mapped then, they stay out.
static void put_aside(struct pw_process *process, struct pw_extent *extent, struct range range,
                      uint32_t *aside) {
    struct pw_arena *arena = &process->arena;
    if (range.change < ALTERS) {
        return;
    }
    char *address = pw_extent_address(arena, extent);
    pw_arena_withdraw(arena, extent);
    if (range.change < REPLACES) {
        extent->next = *aside;
        *aside = pw_extent_number(arena, extent);
    } else {
        pw_os_discard(address, (size_t)extent->pages * PW_PAGE);
        pw_arena_release(arena, extent, PW_EXTENT_LOST);
    }
}

static bool overlaps(struct pw_process *process, struct range range,
                     const struct pw_extent *extent) {
    range = meet(process, range, extent);
    return range.start < range.end;
}

static bool change_extent(struct pw_process *process, struct pw_extent *extent, struct range range,
                          uint32_t *aside) {
    switch (extent->state) {
    case PW_EXTENT_USED:
        return change_block(process, extent, range);
    case PW_EXTENT_SEGMENT:
        extent->altered |= range.change >= ALTERS;
        return true;
    case PW_EXTENT_WARM:
    case PW_EXTENT_COLD:
        put_aside(process, extent, range, aside);
        return true;
    default:
        return true;
    }
}

// A block, or a segment of small ones, each of whose pages tells which it is.
static struct pw_extent *in_use_at(struct pw_process *process, const char *address) {
    struct pw_arena *arena = &process->arena;
    if (!pw_arena_contains(arena, address)) {
        return NULL;
    }
    uint32_t page = (uint32_t)((size_t)(address - arena->base) / PW_PAGE);
    struct pw_extent *extent = pw_arena_extent_of_page(arena, page);
    bool in_use = extent->state == PW_EXTENT_USED || extent->state == PW_EXTENT_SEGMENT;
    return in_use && page - extent->page < extent->pages ? extent : NULL;
}

static struct pw_mapping_call change_all(struct pw_process *process, struct range range) {
    struct pw_arena *arena = &process->arena;
    struct pw_mapping_call call = {0};
    struct pw_extent *first = in_use_at(process, range.start);
    if (first && meet(process, range, first).end == range.end) { // as nearly always
        call.refused = !change_extent(process, first, range, &call.aside);
        return call;
    }
    for (uint32_t number = 1; number < arena->extent_count && !call.refused; number++) {
        struct pw_extent *extent = pw_extent_at(arena, number);
        if (overlaps(process, range, extent)) {
            call.refused = !change_extent(process, extent, range, &call.aside);
        }
    }
    return call;
}

static struct range whole_pages(long address, long size, enum change change,
                                const struct pw_caller *caller) {
    uintptr_t start = (uintptr_t)address & ~(PW_PAGE - 1);
    uintptr_t end = ((uintptr_t)address + (uintptr_t)size + PW_PAGE - 1) & ~(PW_PAGE - 1);
    return (struct range){(char *)start, (char *)(end < start ? ~(PW_PAGE - 1) : end), change,
                          caller};
}

// A block in use, by its owner: it leaves no snapshot, but what a call does to it is seen. Returns
// whether the call may be made.
static bool change_without_lock(struct pw_process *process, struct pw_extent *extent,
                                struct range range) {
    bool of_snapshot = extent->snapshot || extent->of_file;
    if (would_keep_bytes(process, extent, range)) {
        return false;
    }
    if (range.change >= LOCKS) { // a lock of the program's may be there from now on
        extent->locked = false;
    }
    if (range.change >= ALTERS || (is_emptied(range) && of_snapshot)) {
        mark(process, extent, range);
    }
    if (is_emptied(range) && of_snapshot) {
        return pw_share_empty(&process->share, range.start, range.end,
                              range.change == EMPTIES_LOCKED);
    }
    return !of_snapshot ||
           (range.change != MOVES && range.change != NEEDS_OWN && range.change != WATCHES);
}

// Who else runs is asked only where there may be a block to be made ordinary.
static bool enter_to_change(struct pw_process *process, struct pw_caller *caller,
                            struct pw_os_signals *signals) {
    bool asks = __atomic_load_n(&process->share.shared_extents, __ATOMIC_RELAXED) ||
                __atomic_load_n(&process->arena.hugetlb_blocks, __ATOMIC_RELAXED);
    return asks ? pw_process_look_and_enter(caller, signals) : pw_process_enter_soon(signals);
}

static struct pw_mapping_call change(struct pw_process *process, long address, long size,
                                     enum change how, const void *site) {
    struct pw_mapping_call call = {0};
    if (how == NO_CHANGE || !pw_gate_overlaps((const void *)address, (size_t)size)) {
        return call;
    }
    struct pw_caller caller = pw_caller_at(process, site);
    struct range range = whole_pages(address, size, how, &caller);
    struct pw_os_signals signals;
    if (enter_to_change(process, &caller, &signals)) {
        call = change_all(process, range);
        pw_process_leave_soon(&signals);
        return call;
    }
    // A signal handler in the middle of our own work, another thread stopped in it, or a child that
    // does without us. A block in use can be marked all the same.
    struct pw_extent *extent = pw_arena_find(&process->arena, range.start);
    if (extent) {
        call.refused = !change_without_lock(process, extent, meet(process, range, extent));
    }
    return call;
}

void pw_mapping_call_ends(struct pw_process *process, struct pw_mapping_call call) {
    struct pw_arena *arena = &process->arena;
    struct pw_os_signals signals;
    if (!call.aside || !pw_process_enter_soon(&signals)) {
        return; // they stay out of the pool
    }
    while (call.aside) {
        struct pw_extent *extent = pw_extent_at(arena, call.aside);
        call.aside = extent->next;
        bool blank = pw_arena_blank(arena, pw_extent_address(arena, extent),
                                    (size_t)extent->pages * PW_PAGE);
        pw_arena_release(arena, extent, blank ? PW_EXTENT_COLD : PW_EXTENT_LOST);
    }
    pw_process_leave_soon(&signals);
}

// --- the calls ---------------------------------------------------------------------

static enum change change_by_advice(long advice) {
    switch (advice) {
    case MADV_NORMAL:
    case MADV_WILLNEED:
    case MADV_DOFORK:
    case MADV_DODUMP:
    case MADV_KEEPONFORK:
    case MADV_UNMERGEABLE:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
    case MADV_COLLAPSE:
        return NO_CHANGE; // or back to what other memory is like
    case MADV_HUGEPAGE:
        return HUGE_PAGES;
    case MADV_COLD:
    case MADV_PAGEOUT:
        return RECLAIMS;
    case MADV_WIPEONFORK:
    case MADV_GUARD_INSTALL:
        return NEEDS_OWN;
    case MADV_DONTNEED:
    case MADV_FREE:
        return EMPTIES;
    case MADV_DONTNEED_LOCKED:
        return EMPTIES_LOCKED;
    default:
        return ALTERS;
    }
}

// What the kernel refuses must not empty a block first: an address that malloc returned is seldom
// that of a page.
static enum change change_by_madvise(long address, long size, long advice) {
    bool is_refused =
        address % (long)PW_PAGE != 0 || (size_t)size > SIZE_MAX - (PW_PAGE - 1) ||
        (uintptr_t)address > UINTPTR_MAX - (((size_t)size + PW_PAGE - 1) & ~(PW_PAGE - 1));
    return is_refused ? NO_CHANGE : change_by_advice(advice);
}

// By process_madvise it may refuse for its other arguments as well, or mean another process: a
// block keeps its bytes, and leaves its snapshot.
static enum change change_by_process_madvise(long advice) {
    enum change how = change_by_advice(advice);
    return how == EMPTIES || how == EMPTIES_LOCKED ? MOVES : how;
}

static struct pw_mapping_call also(struct pw_mapping_call first, struct pw_mapping_call second) {
    return first.refused || first.aside ? first : second;
}

// With the same lock held by nobody: each range is a call of its own.
static struct pw_mapping_call advise_ranges(struct pw_process *process, const long arguments[6],
                                            const void *site) {
    struct iovec ranges[RANGES];
    struct pw_mapping_call all = {0};
    size_t count = (size_t)arguments[2];
    for (size_t done = 0; done < count && !all.refused && !all.aside; done += RANGES) {
        size_t now = count - done < RANGES ? count - done : RANGES;
        const struct iovec *from = (const struct iovec *)arguments[1] + done;
        if (!pw_os_peek(from, ranges, now * sizeof *ranges)) {
            break; // the kernel will say so
        }
        for (size_t i = 0; i < now; i++) {
            all = also(all, change(process, (long)ranges[i].iov_base, (long)ranges[i].iov_len,
                                   change_by_process_madvise(arguments[3]), site));
        }
    }
    return all;
}

// Pages that a snapshot's mapping is emptied of are new ones, which nobody would fetch or watch: a
// block that cannot leave its snapshot is refused.
static struct pw_mapping_call register_faults(struct pw_process *process, const long arguments[6],
                                              const void *site) {
    struct uffdio_register wanted;
    if ((unsigned)arguments[1] != UFFDIO_REGISTER ||
        !pw_os_peek((const void *)arguments[2], &wanted, sizeof wanted)) {
        return (struct pw_mapping_call){0};
    }
    return change(process, (long)wanted.range.start, (long)wanted.range.len, WATCHES, site);
}

// The source need not be registered, so this call alone tells of it. The kernel moves nothing
// between locked memory and other.
static struct pw_mapping_call move_faulting(struct pw_process *process, const long arguments[6],
                                            const void *site) {
    struct pw_os_uffd_move wanted;
    if (!pw_os_peek((const void *)arguments[2], &wanted, sizeof wanted)) {
        return (struct pw_mapping_call){0};
    }
    return change(process, (long)wanted.from, (long)wanted.size, MOVES, site);
}

static struct pw_mapping_call attach_segment(struct pw_process *process, const long arguments[6],
                                             const void *site) {
    struct shmid_ds segment;
    if (!(arguments[2] & SHM_REMAP) || shmctl((int)arguments[0], IPC_STAT, &segment) != 0) {
        return (struct pw_mapping_call){0};
    }
    return change(process, arguments[1], (long)segment.shm_segsz, REPLACES, site);
}

static struct pw_mapping_call remap(struct pw_process *process, const long arguments[6],
                                    const void *site) {
    bool shrinks = arguments[2] != 0 && arguments[2] < arguments[1] &&
                   !(arguments[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP));
    struct pw_mapping_call call =
        change(process, arguments[0], arguments[1], shrinks ? REPLACES : MOVES, site);
    if (!call.refused && arguments[3] & MREMAP_FIXED) {
        call = also(call, change(process, arguments[4], arguments[2], REPLACES, site));
    }
    return call;
}

// Memory locks are kept from now on: what is there is not shared, nor is what comes.
static struct pw_mapping_call lock_all(struct pw_process *process, long flags, const void *site) {
    struct pw_mapping_call call = {0};
    if (flags & MCL_CURRENT) {
        call = change(process, (long)process->gate->base, (long)process->gate->span, LOCKS, site);
    }
    // A child of a fork first forgets what its parent had locked.
    struct pw_os_signals signals;
    if (pw_process_enter_soon(&signals)) {
        pw_process_leave_soon(&signals);
    }
    // Until munlockall: a call that would end it may be refused.
    process->locks_all |= (flags & MCL_FUTURE) != 0;
    return call;
}

static enum change change_by_protection(const long arguments[6]) {
    return arguments[2] == READ_WRITE ? NO_CHANGE : ALTERS;
}

static struct pw_mapping_call begin(struct pw_process *process, long number,
                                    const long arguments[6], const void *site) {
    long address = arguments[0], size = arguments[1];
    switch (number) {
    case SYS_madvise:
        return change(process, address, size, change_by_madvise(address, size, arguments[2]), site);
    case SYS_mprotect:
        return change(process, address, size, change_by_protection(arguments), site);
    case SYS_pkey_mprotect:
        return change(process, address, size,
                      arguments[3] > 0 ? ALTERS : change_by_protection(arguments), site);
    case SYS_mlock:
    case SYS_mlock2:
        return change(process, address, size, LOCKS, site);
    case SYS_mbind:
    case SYS_set_mempolicy_home_node:
    case SYS_mseal:
        return change(process, address, size, ALTERS, site);
    case SYS_munmap:
        return change(process, address, size, REPLACES, site);
    case SYS_mmap:
        return change(process, address, size, arguments[3] & MAP_FIXED ? REPLACES : NO_CHANGE,
                      site);
    case SYS_mremap:
        return remap(process, arguments, site);
    case SYS_shmat:
        return attach_segment(process, arguments, site);
    case SYS_ioctl:
        return (unsigned)arguments[1] == PW_OS_UFFDIO_MOVE
                   ? move_faulting(process, arguments, site)
                   : register_faults(process, arguments, site);
    case SYS_process_madvise:
        return advise_ranges(process, arguments, site);
    case SYS_mlockall:
        return lock_all(process, address, site);
    case SYS_munlockall:
        process->locks_all = false;
        return (struct pw_mapping_call){0};
    default:
        return (struct pw_mapping_call){0};
    }
}

// Calls of our own know what they do. They come by here where `os` makes them by the C library's
// names (os/system_call.h).
static bool is_own(const void *site) {
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (uintptr_t)site - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
}

struct pw_mapping_call pw_mapping_call_begins(struct pw_process *process, long number,
                                              const long arguments[6], const void *site) {
    return is_own(site) ? (struct pw_mapping_call){0} : begin(process, number, arguments, site);
}

// --- calls that nobody saw -----------------------------------------------------------

bool pw_block_is_ordinary(struct pw_process *process, struct pw_extent *extent) {
    struct pw_os_maps maps;
    bool ordinary = true;
    if (extent->altered) {
        return false;
    }
    if (extent->snapshot || !pw_os_maps_open(&maps)) {
        return true; // it was looked at before, or nothing is known
    }
    char *start = pw_extent_address(&process->arena, extent);
    struct range range = {start, start + (size_t)extent->pages * PW_PAGE, ALTERS, NULL};
    bool known = pw_os_maps_ordinary(&maps, start, (size_t)extent->pages * PW_PAGE, &ordinary);
    pw_os_maps_close(&maps);
    if (known && !ordinary) {
        mark(process, extent, range);
    }
    return !known || ordinary;
}
