// SPDX-License-Identifier: MIT
//
// Copies and fills of whole pages: find the blocks, ask the policy, let the mechanism act.
#include "block/copying.h"
#include "block/fate.h"
#include "block/mapped.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/runtime.h"

// Bytes that a fill leaves out. To ask the kernel takes 5 us, to write as much 13 and more.
#define ASKED_FROM ((uint64_t)1 << 20)

// A copy in terms of extents: pages [from, from + pages) of source to [to, ...) of destination.
struct copy {
    struct pw_extent *source, *destination;
    uint32_t from, to, pages;
    char *whole;        // destination of the first whole page
    const char *origin; // its source
    bool by_mmapcopy;   // mmapcopy(2) can make it
    const void *site;   // who asked for it
    struct pw_caller caller;
};

// The pages of the copy that lie wholly inside it. False: nothing to share. The last page of a
// block is copied, not shared, though its rest belongs to nobody by what was asked of us: a realloc
// of the C library's own may have made the block longer, within that page.
static bool find_pages(struct pw_process *process, struct copy *copy, char *to, const char *from,
                       size_t size) {
    struct pw_arena *arena = &process->arena;
    if (((uintptr_t)to ^ (uintptr_t)from) & (PW_PAGE - 1)) {
        return false;
    }
    size_t lead = -(uintptr_t)to & (PW_PAGE - 1);
    if (size < lead + PW_PAGE) {
        return false;
    }
    copy->source = pw_arena_find(arena, from);
    copy->destination = pw_arena_find(arena, to);
    if (!copy->source || !copy->destination || copy->source == copy->destination) {
        return false;
    }
    copy->whole = to + lead;
    copy->origin = from + lead;
    copy->by_mmapcopy = false;
    copy->pages = (uint32_t)((size - lead) / PW_PAGE);
    copy->to = (uint32_t)((copy->whole - pw_extent_address(arena, copy->destination)) / PW_PAGE);
    copy->from = (uint32_t)((copy->origin - pw_extent_address(arena, copy->source)) / PW_PAGE);
    // A copy that runs over the end of a block is the program's error, not ours to make worse.
    return copy->to + copy->pages <= copy->destination->pages &&
           copy->from + copy->pages <= copy->source->pages;
}

static bool covers(uint32_t first, uint32_t pages, const struct pw_extent *extent) {
    return first <= extent->share_first &&
           first + pages >= extent->share_first + extent->share_pages;
}

static void count_plain(struct pw_process *process, enum pw_copy_answer answer) {
    struct pw_stats *stats = &process->stats;
    switch (answer) {
    case PW_COPY_PLAIN_WARM:
        PW_COUNT(stats, copies_plain_warm, 1);
        break;
    case PW_COPY_PLAIN_PREDICTED:
        PW_COUNT(stats, copies_plain_predicted, 1);
        break;
    case PW_COPY_PLAIN_BRIEF:
        PW_COUNT(stats, copies_plain_brief, 1);
        break;
    default:
        PW_COUNT(stats, copies_plain_dirty, 1);
        break;
    }
}

// The destination's pages are about to be replaced: warm ones go back to the pool instead of being
// thrown away with the mapping. Pages that mmapcopy(2) has copied elsewhere are not warm any more.
static void save_warm_pages(struct pw_process *process, const struct copy *copy) {
    if (process->options.pool && !copy->destination->mmapcopied) {
        pw_arena_save_warm(&process->arena, copy->destination, copy->to, copy->to + copy->pages);
    }
}

// The copy that follows writes all of these pages. Where a limit was lowered, they may have to stay
// in the mapping of a file meanwhile, and are not for another block then.
static void unattach(struct pw_process *process, const struct copy *copy) {
    size_t size = (size_t)copy->pages * PW_PAGE;
    if (!pw_arena_blank(&process->arena, copy->whole, size)) {
        copy->destination->fixed = true;
        copy->destination->of_file = true;
        copy->destination->may_share = false;
        pw_arena_mend(&process->arena, copy->whole, size);
    }
}

// Map the destination onto the source's snapshot, or onto its pages.
static bool attach(struct pw_process *process, const struct copy *copy) {
    save_warm_pages(process, copy);
    bool attached = (copy->by_mmapcopy ? pw_share_mmapcopy : pw_share_attach)(
        &process->share, copy->destination, copy->to, copy->source, copy->from, copy->pages);
    if (!attached) {
        unattach(process, copy);
        return false;
    }
    copy->destination->copied = true;
    copy->destination->judged = false;
    copy->destination->sparse = false;
    pw_arena_keep_rule(&process->arena, 0, 0, &(struct pw_resident){0});
    return true;
}

// The destination's pages are replaced, which a device or a ring may know by their frames: what it
// wrote later would be lost. So are the source's when it is published. memcpy's own rule is not
// enough there, as a program may well write to what it copies, and only the copy is then undefined.
static bool may_replace(struct pw_process *process, const struct copy *copy) {
    bool quiet = pw_is_quiet(&copy->caller);
    if (!quiet) {
        PW_COUNT(&process->stats, fallback_threads, 1);
    }
    return quiet;
}

static bool publish(struct pw_process *process, struct copy *copy) {
    uint32_t published =
        !pw_block_is_ordinary(process, copy->source)
            ? 0
            : pw_share_publish(&process->share, copy->source, copy->from, copy->pages);
    copy->pages = published < copy->pages ? published : copy->pages;
    return published > 0;
}

// A destination that shares pages itself is overwritten: it gives up its share first.
static bool free_destination(struct pw_process *process, struct copy *copy) {
    struct pw_extent *destination = copy->destination;
    if (!destination->snapshot) {
        return true;
    }
    return covers(copy->to, copy->pages, destination) &&
           pw_share_drop(&process->share, destination);
}

// What the policy needs to know. False: a shape that cannot be shared.
static bool ask(struct pw_process *process, struct copy *copy, struct pw_copy_question *question) {
    struct pw_extent *source = copy->source;
    *question = (struct pw_copy_question){
        .pages = copy->pages,
        .destination_pages = copy->destination->pages,
        .destination_warm = copy->destination->warm_pages,
        .now = pw_os_now_ms(),
        .site = (uint64_t)(uintptr_t)copy->site,
        .by_extension = copy->caller.module == PW_MODULE_EXTENSION,
        .in_worker = process->in_worker,
    };
    if (pw_extent_holds_stack(&process->arena, source) ||
        pw_extent_holds_stack(&process->arena, copy->destination)) {
        return false;
    }
    if (!source->snapshot) {
        // As cheap as a copy of pages that are published already.
        copy->by_mmapcopy = question->published = pw_share_uses_mmapcopy(&process->share, source);
        return true;
    }
    uint32_t shared_end = source->share_first + source->share_pages;
    question->published =
        copy->from >= source->share_first && copy->from + copy->pages <= shared_end;
    if (question->published && !pw_share_count_private(&process->share, source, copy->from,
                                                       copy->pages, &question->written)) {
        question->written = copy->pages;
    }
    return question->published || covers(copy->from, copy->pages, source);
}

static bool make_room(struct pw_process *process, struct copy *copy, enum pw_copy_answer answer) {
    bool publishing = answer == PW_COPY_PUBLISH;
    if (!may_replace(process, copy)) {
        return false;
    }
    bool ready = copy->by_mmapcopy ? pw_share_ready_for_mmapcopy(&process->share)
                                   : pw_share_ready(&process->share, publishing);
    return ready && free_destination(process, copy) && (!publishing || publish(process, copy)) &&
           attach(process, copy);
}

// Share the whole pages of a copy. copy->pages may shrink to what could be shared.
static bool share_pages(struct pw_process *process, struct copy *copy) {
    struct pw_stats *stats = &process->stats;
    struct pw_copy_question question;
    struct pw_prediction *prediction = pw_predictor_entry(
        &process->predictor, copy->destination->pages, (uint64_t)(uintptr_t)copy->site);
    pw_fate_look(process, prediction);
    if (!ask(process, copy, &question)) {
        PW_COUNT(stats, copies_plain_shape, 1);
        return false;
    }
    enum pw_copy_answer answer = pw_copy_decide(&process->options, prediction, &question);
    bool republish = answer == PW_COPY_PUBLISH && copy->source->snapshot;
    if (republish && !covers(copy->from, copy->pages, copy->source)) {
        answer = PW_COPY_PLAIN_DIRTY; // other pages of the source still need the old snapshot
    }
    pw_fate_begins(process, prediction, copy->destination, &question);
    if (answer != PW_COPY_SHARE && answer != PW_COPY_PUBLISH) {
        count_plain(process, answer);
        if (answer == PW_COPY_PLAIN_PREDICTED && pw_predictor_is_curious(prediction)) {
            pw_fate_watch_plain(process, prediction, copy->destination, copy->to, copy->source,
                                copy->from, copy->pages);
        }
        return false;
    }
    if (!make_room(process, copy, answer)) {
        PW_COUNT(stats, copies_plain_fallback, 1);
        return false;
    }
    pw_fate_watch_shared(process, prediction, copy->destination);
    pw_huge_spared(&process->huge_price, copy->destination->pages);
    uint64_t copied = answer == PW_COPY_SHARE ? question.written : 0;
    PW_COUNT(stats, copies_shared, 1);
    PW_COUNT(stats, shared_copy_bytes, (copy->pages - copied) * PW_PAGE);
    return true;
}

// The bytes around the shared pages.
static void copy_edges(const struct copy *copy, char *to, const char *from, size_t size) {
    size_t lead = (size_t)(copy->whole - to);
    size_t done = lead + (size_t)copy->pages * PW_PAGE;
    pw_os_copy(to, from, lead);
    if (done < size) {
        pw_os_copy(to + done, from + done, size - done);
    }
}

bool pw_block_copy(struct pw_process *process, void *to, const void *from, size_t size,
                   const void *site) {
    struct pw_os_signals signals;
    if (process->options.share == PW_SHARE_OFF || !pw_gate_contains(to) ||
        !pw_gate_contains(from)) {
        return false;
    }
    struct copy copy = {.site = site};
    copy.caller = pw_caller_at(process, site);
    if (!pw_process_look_and_enter(&copy.caller, &signals)) {
        return false;
    }
    bool shared = false;
    if (find_pages(process, &copy, to, from, size)) {
        PW_COUNT(&process->stats, copies_seen, 1);
        bool safe = copy.source->may_share && copy.destination->may_share &&
                    copy.caller.module != PW_MODULE_OTHER;
        if (!safe) {
            PW_COUNT(&process->stats, copies_plain_module, 1);
        }
        shared = safe && share_pages(process, &copy);
    }
    pw_process_leave_soon(&signals);
    if (shared) {
        copy_edges(&copy, to, from, size);
    }
    return shared;
}

// --- fills with zero ---------------------------------------------------------

static bool fill_range(void *context, char *start, size_t size) {
    pw_os_fill_zero(start, size);
    *(uint64_t *)context += size;
    return true;
}

// Zero whole pages of which some may never have been touched: only those that exist are written.
// False: not known which exist.
static bool zero_existing(struct pw_process *process, char *start, char *end, uint64_t *skipped) {
    uint64_t filled = 0;
    bool done = pw_os_pagemap_each(&process->share.pagemap, start, end, PW_OS_PRIVATE_PAGES,
                                   fill_range, &filled);
    *skipped = done ? (uint64_t)(end - start) - filled : 0;
    return done;
}

// Shared pages would be copied by the kernel only to be overwritten: they become blank first. Those
// on a snapshot must, because they look absent and do not read zero.
static bool blank_shared(struct pw_process *process, struct pw_extent *extent, char *start,
                         char *end) {
    uint32_t first = (uint32_t)((start - pw_extent_address(&process->arena, extent)) / PW_PAGE);
    uint32_t pages = (uint32_t)((end - start) / (ptrdiff_t)PW_PAGE);
    if (extent->snapshot) {
        return covers(first, pages, extent) && pw_share_drop(&process->share, extent);
    }
    return pw_share_blank_mmapcopied(&process->share, extent, first, pages);
}

// A fill of whole pages with zero, and whether it may replace some of them.
struct fill {
    char *start, *end;
    struct pw_caller caller;
};

// As for copies: a device or a ring may know the pages by their frames.
static bool may_empty(const struct fill *fill) {
    return pw_is_quiet(&fill->caller);
}

// Would it replace pages, were that allowed?
static bool would_empty(const struct pw_process *process, const struct pw_extent *extent,
                        const struct fill *fill) {
    return pw_extent_is_shared(extent) ||
           (extent->may_share && extent->huge_pages && process->options.zero != PW_ZERO_OFF &&
            (size_t)(fill->end - fill->start) >= PW_HUGE_PAGE);
}

// Whole pages of the fill, for which the extent's own knowledge pays.
static bool zero_pages(struct pw_process *process, struct pw_extent *extent,
                       const struct fill *fill) {
    struct pw_arena *arena = &process->arena;
    char *start = fill->start, *end = fill->end;
    uint64_t skipped = 0;
    bool published = extent->snapshot != 0;
    bool may_replace = would_empty(process, extent, fill) && may_empty(fill);
    bool blank =
        may_replace && pw_extent_is_shared(extent) && blank_shared(process, extent, start, end);
    if (!blank && (published || !extent->untouched)) {
        return false;
    }
    char *warm_end = pw_extent_address(arena, extent) + (size_t)extent->warm_pages * PW_PAGE;
    if (start < warm_end) {
        char *stop = warm_end < end ? warm_end : end;
        pw_os_fill_zero(start, (size_t)(stop - start));
        start = stop;
    }
    // As zero reclaim does, and so only of blocks that it may look at.
    if (may_replace && extent->may_share && process->options.zero != PW_ZERO_OFF) {
        pw_huge_empty(arena, extent, start, end);
        pw_huge_spared(&process->huge_price, extent->pages);
    }
    bool done = zero_existing(process, start, end, &skipped);
    // What looks as if it was never touched may be another mapping, made by a call that nobody saw.
    if (skipped >= ASKED_FROM && !pw_block_is_ordinary(process, extent)) {
        return false;
    }
    extent->sparse |= skipped > 0;
    PW_COUNT(&process->stats, lazy_zero_bytes, skipped);
    return done;
}

// The block of the fill, if whole pages of it are filled and are ours to fill.
static struct pw_extent *block_of(struct pw_process *process, const void *to,
                                  const struct fill *fill) {
    struct pw_extent *extent = pw_arena_find(&process->arena, to);
    if (!extent || extent->altered || pw_extent_holds_stack(&process->arena, extent)) {
        return NULL;
    }
    char *limit = pw_extent_address(&process->arena, extent) + (size_t)extent->pages * PW_PAGE;
    return fill->start < fill->end && fill->end <= limit ? extent : NULL;
}

// A look at the libraries takes some microseconds and comes before the lock: only where pages would
// be replaced.
static bool zero_block(struct pw_process *process, const void *to, struct fill *fill) {
    struct pw_os_signals signals;
    if (!pw_process_enter_soon(&signals)) {
        return false;
    }
    struct pw_extent *extent = block_of(process, to, fill);
    if (extent && would_empty(process, extent, fill)) {
        pw_process_leave_soon(&signals);
        if (!pw_process_look_and_enter(&fill->caller, &signals)) {
            return false;
        }
        extent = block_of(process, to, fill);
    }
    bool done = extent && zero_pages(process, extent, fill);
    pw_process_leave_soon(&signals);
    return done;
}

bool pw_block_zero(struct pw_process *process, void *to, size_t size) {
    char *start = (char *)(((uintptr_t)to + PW_PAGE - 1) & ~(PW_PAGE - 1));
    char *stop = (char *)to + size, *end = (char *)((uintptr_t)stop & ~(PW_PAGE - 1));
    struct fill fill = {.start = start, .end = end};
    if (!pw_gate_contains(to) || !zero_block(process, to, &fill)) {
        return false;
    }
    pw_os_fill_zero(to, (size_t)(start - (char *)to));
    pw_os_fill_zero(end, (size_t)(stop - end));
    return true;
}
