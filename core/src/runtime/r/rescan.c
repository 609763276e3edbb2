// SPDX-License-Identifier: MIT
#include "runtime/r/rescan.h"

#include "process/state.h"

// Between pages with frozen nodes, within a span: a call for each span costs more than to protect
// what lies between.
#define LARGEST_GAP ((uintptr_t)8 * PW_PAGE)
#define SMALL_GAP   ((uintptr_t)4 * PW_PAGE)
#define HOT         8 // looks in a row that find a page written

// --- nodes ----------------------------------------------------------------------------

struct looking {
    struct pw_r_rescan *rescan;
    struct pw_r_frozen_page *page;
    bool fits;
};

// Symbols never die, and thousands of nodes hold one: each is a root once, until all is thawed.
// Where that cannot be written down, `page` keeps it as any other node.
static struct pw_r_frozen_page *keeper_of(struct pw_r_rescan *rescan, struct pw_r_node *child,
                                          struct pw_r_frozen_page *page) {
    if (pw_r_type(child) != PW_R_SYMBOL) {
        return page;
    }
    if (pw_r_set_has(&rescan->symbols, child)) {
        return NULL;
    }
    return rescan->may_call && pw_r_set_add(&rescan->symbols, child) ? &rescan->always : page;
}

static void look_at_child(void *context, struct pw_r_node *child) {
    struct looking *looking = context;
    struct pw_r_rescan *rescan = looking->rescan;
    if (child == rescan->nothing || child == rescan->global || !looking->fits ||
        pw_r_set_has(rescan->frozen, child)) {
        return;
    }
    struct pw_r_frozen_page *keeper = keeper_of(rescan, child, looking->page);
    looking->fits = !keeper || pw_r_roots_add(rescan->roots, keeper, child);
}

static bool look_at_node(void *context, struct pw_r_node *node) {
    struct looking *looking = context;
    return pw_r_each_child(node, look_at_child, looking) && looking->fits;
}

// What holds the same as at the last look has its roots already, and they are alive.
static bool look_at_page(struct pw_r_rescan *rescan, struct pw_r_frozen_page *page) {
    uint64_t sum = pw_r_page_sum(&rescan->key, page);
    if (sum != PW_R_NO_SUM && sum == page->sum) {
        return true;
    }
    struct looking looking = {.rescan = rescan, .page = page, .fits = true};
    page->sum = PW_R_NO_SUM;
    pw_r_roots_drop(rescan->roots, page, rescan->nothing);
    bool done = pw_r_page_each(page, look_at_node, &looking);
    page->sum = done ? sum : PW_R_NO_SUM;
    return done;
}

static bool look_at_all(struct pw_r_rescan *rescan) {
    for (size_t i = 0; i < rescan->pages->count; i++) {
        if (!look_at_page(rescan, &rescan->pages->pages[i])) {
            return false;
        }
    }
    return true;
}

bool pw_r_rescan_look_anew(struct pw_r_rescan *rescan) {
    for (size_t i = 0; i < rescan->pages->count; i++) {
        rescan->pages->pages[i].sum = PW_R_NO_SUM;
    }
    return look_at_all(rescan);
}

// --- pages of memory --------------------------------------------------------------------

static size_t span_table_size(const struct pw_r_rescan *rescan) {
    return pw_pages_for(rescan->span_room * sizeof *rescan->spans) * PW_PAGE;
}

// The whole pages of memory that a page of R's lies in.
static struct pw_r_span memory_of(const struct pw_r_frozen_pages *pages,
                                  const struct pw_r_frozen_page *page) {
    return (struct pw_r_span){(uintptr_t)page->page & ~(PW_PAGE - 1),
                              (pw_r_page_end(pages, page) + PW_PAGE - 1) & ~(PW_PAGE - 1)};
}

static bool find_spans(struct pw_r_rescan *rescan) {
    const struct pw_r_frozen_pages *pages = rescan->pages;
    rescan->span_room = pages->count + 1;
    rescan->spans = pw_os_map_table(span_table_size(rescan));
    rescan->span_count = 0;
    for (size_t i = 0; rescan->spans && i < pages->count; i++) {
        struct pw_r_span memory = memory_of(pages, &pages->pages[i]);
        struct pw_r_span *last = &rescan->spans[rescan->span_count];
        if (rescan->span_count > 0 && memory.start <= last[-1].end + LARGEST_GAP) {
            last[-1].end = memory.end;
        } else {
            *last = memory;
            rescan->span_count++;
        }
    }
    return rescan->spans != NULL;
}

// The whole mapping, so that their number does not grow. Where it ends, or `last`, up to which
// there is none any more: R has given pages back. 0: it cannot be watched. Blocks of ours move
// their pages.
static uintptr_t watch_mapping(struct pw_r_rescan *rescan, uintptr_t address, uintptr_t last) {
    struct pw_os_mapping mapping = {0};
    if (pw_os_mapping_from((const void *)address, &mapping) && mapping.start >= last) {
        return last;
    }
    bool done = mapping.end > address &&
                !pw_gate_overlaps((const void *)mapping.start, mapping.end - mapping.start) &&
                pw_os_written_watch(&rescan->written, mapping.start, mapping.end);
    return done ? mapping.end : 0;
}

// A span may lie in more than one: what R took later than we last watched is a mapping of its own.
static bool watch_mappings(struct pw_r_rescan *rescan) {
    uintptr_t end = 0;
    for (size_t i = 0; i < rescan->span_count; i++) {
        const struct pw_r_span *span = &rescan->spans[i];
        uintptr_t at = end > span->start ? end : span->start;
        while (at < span->end) {
            end = at = watch_mapping(rescan, at, span->end);
            if (!end) {
                return false;
            }
        }
    }
    return true;
}

static bool ignore_range(void *context, char *start, size_t size) {
    (void)context;
    (void)start;
    (void)size;
    return true;
}

static bool protect_pending(struct pw_r_rescan *rescan) {
    struct pw_r_span pending = rescan->pending;
    rescan->pending = (struct pw_r_span){0};
    return pending.start >= pending.end ||
           pw_os_written_take(&rescan->written, pending.start, pending.end, ignore_range, NULL);
}

static bool protect_later(struct pw_r_rescan *rescan, struct pw_r_span more, bool joins) {
    if (joins) {
        rescan->pending.end = more.end;
        return true;
    }
    bool done = protect_pending(rescan);
    rescan->pending = more;
    return done;
}

// Protect what holds frozen nodes, and nothing else that was written: each page costs a fault when
// it is written again. Between two ranges nothing was written, so that one call does for both: each
// makes every processor on which a thread of the program runs forget what it knows of its memory.
// Other threads may write to what lies there meanwhile, but no pointers: those are R's.
static bool protect_range(void *context, char *start, size_t size) {
    struct pw_r_rescan *rescan = context;
    const struct pw_r_frozen_pages *pages = rescan->pages;
    uintptr_t first = (uintptr_t)start, last = first + size, to = first;
    uintptr_t idle = rescan->listed - rescan->pending.end; // written, and at the last range's end
    bool joins = rescan->listed > 0 && rescan->pending.end > 0 && idle <= SMALL_GAP;
    to = first - idle;
    for (size_t i = pw_r_frozen_pages_find(pages, first);
         i < pages->count && (uintptr_t)pages->pages[i].page < last; i++) {
        struct pw_r_span memory = memory_of(pages, &pages->pages[i]);
        memory.start = memory.start > first ? memory.start : first;
        memory.end = memory.end < last ? memory.end : last;
        if (!protect_later(rescan, memory, joins && memory.start <= to + SMALL_GAP)) {
            return false;
        }
        joins = true;
        to = memory.end;
    }
    rescan->listed = last;
    return true;
}

static bool visit_written(struct pw_r_rescan *rescan, pw_os_visit *visit) {
    for (size_t i = 0; i < rescan->span_count; i++) {
        const struct pw_r_span *span = &rescan->spans[i];
        rescan->pending = (struct pw_r_span){0};
        rescan->listed = 0;
        if (!pw_os_written_list(&rescan->written, span->start, span->end, visit, rescan) ||
            !protect_pending(rescan)) {
            return false;
        }
    }
    return true;
}

// A page that is written after it was taken here is told by the next look, and the look at all
// nodes comes after this one.
static bool watch(struct pw_r_rescan *rescan) {
    if (!pw_os_written_open(&rescan->written)) {
        return false;
    }
    if (!watch_mappings(rescan) || !visit_written(rescan, protect_range)) {
        pw_os_written_close(&rescan->written);
        return false;
    }
    return true;
}

bool pw_r_rescan_is_hot(const struct pw_r_rescan *rescan, const struct pw_r_frozen_page *page) {
    return page->streak >= HOT && page->last_look == rescan->looks;
}

// A page of R's may lie in two ranges of one look.
static void note_written(struct pw_r_rescan *rescan, struct pw_r_frozen_page *page) {
    if (page->last_look == rescan->looks) {
        return;
    }
    bool in_a_row = page->last_look + 1 == rescan->looks;
    page->streak = in_a_row ? page->streak + (page->streak < HOT) : 1;
    page->last_look = rescan->looks;
    rescan->written_now++;
    rescan->hot_now += page->streak >= HOT;
}

static bool note_range(void *context, char *start, size_t size) {
    struct pw_r_rescan *rescan = context;
    struct pw_r_frozen_pages *pages = rescan->pages;
    uintptr_t end = (uintptr_t)start + size;
    size_t first = pw_r_frozen_pages_find(pages, (uintptr_t)start), i = first;
    for (; i < pages->count && (uintptr_t)pages->pages[i].page < end; i++) {
        note_written(rescan, &pages->pages[i]);
    }
    rescan->first_written = first < rescan->first_written ? first : rescan->first_written;
    rescan->past_written = i > rescan->past_written ? i : rescan->past_written;
    return protect_range(context, start, size);
}

// Into the cache, while the page before it is looked at.
static void fetch(const struct pw_r_rescan *rescan, const struct pw_r_frozen_page *page) {
    uintptr_t end = pw_r_page_end(rescan->pages, page);
    for (uintptr_t line = (uintptr_t)page->page; line < end; line += 64) {
        __builtin_prefetch((const void *)line);
    }
}

// Protected first: what is written from then on the next look is told.
static bool look_at_written(struct pw_r_rescan *rescan) {
    rescan->first_written = rescan->pages->count;
    rescan->past_written = 0;
    bool done = visit_written(rescan, note_range);
    struct pw_r_frozen_page *last = NULL;
    for (size_t i = rescan->first_written; done && i < rescan->past_written; i++) {
        struct pw_r_frozen_page *page = &rescan->pages->pages[i];
        if (page->last_look == rescan->looks) {
            fetch(rescan, page);
            done = !last || look_at_page(rescan, last);
            last = page;
        }
    }
    return done && (!last || look_at_page(rescan, last));
}

bool pw_r_rescan_can_watch(void) {
    struct pw_os_written written;
    if (!pw_os_written_open(&written)) {
        return false;
    }
    pw_os_written_close(&written);
    return true;
}

// --- looks ------------------------------------------------------------------------------

static bool is_watched(const struct pw_r_rescan *rescan) {
    return pw_os_is_ours(&rescan->written.table);
}

void pw_r_rescan_start(struct pw_r_rescan *rescan, bool watch_pages) {
    if (watch_pages && !rescan->marker) {
        rescan->marker = pw_os_fork_marker();
    }
    rescan->begins = true;
    rescan->always.first_root = PW_R_NO_ROOT;
    pw_r_sum_key_make(&rescan->key);
    rescan->watches = watch_pages && rescan->marker && find_spans(rescan) && watch(rescan);
    if (rescan->watches) {
        *rescan->marker = 1;
    }
}

// A child of a fork that has not looked yet holds the descriptor as well. While it does, the kernel
// would let nobody else watch what is watched through it. In a child it speaks of its parent.
static void unwatch(struct pw_r_rescan *rescan) {
    uintptr_t end = 0;
    for (size_t i = 0; i < rescan->span_count && *rescan->marker == 1; i++) {
        const struct pw_r_span *span = &rescan->spans[i];
        for (uintptr_t at = end > span->start ? end : span->start; at < span->end; at = end) {
            struct pw_os_mapping mapping = {0};
            if (!pw_os_mapping_from((const void *)at, &mapping)) {
                return;
            }
            if (mapping.start >= span->end) { // R has given the rest back
                end = span->end;
                break;
            }
            pw_os_written_unwatch(&rescan->written, mapping.start, mapping.end);
            end = mapping.end;
        }
    }
}

void pw_r_rescan_stop(struct pw_r_rescan *rescan, bool may_call) {
    if (rescan->watches && may_call) {
        unwatch(rescan);
        pw_os_written_close(&rescan->written);
    }
    if (rescan->spans && may_call) {
        pw_os_unmap(rescan->spans, span_table_size(rescan));
    }
    rescan->watches = false;
    rescan->spans = NULL;
    if (may_call) {
        pw_r_set_free(&rescan->symbols);
    }
}

static void watch_again(struct pw_r_rescan *rescan) {
    unwatch(rescan);
    pw_os_written_close(&rescan->written);
    rescan->watches = watch(rescan);
    *rescan->marker = 1;
}

bool pw_r_rescan_look(struct pw_r_rescan *rescan, bool may_call) {
    bool begins = rescan->begins;
    rescan->may_call = may_call;
    rescan->begins = false;
    rescan->looks++;
    rescan->written_now = rescan->hot_now = 0;
    rescan->watches = rescan->watches && may_call; // for good: a later look would miss this time's
    if (begins || !rescan->watches) {
        return look_at_all(rescan);
    }
    // In a child of a fork nothing is watched, and the descriptors tell of its parent's memory.
    bool is_child = *rescan->marker != 1;
    if (!is_child && is_watched(rescan) && look_at_written(rescan)) {
        return true;
    }
    watch_again(rescan);
    return look_at_all(rescan);
}

// The collector writes marks and links alone. What it wrote need not be looked at, but for the next
// writes to be told.
void pw_r_rescan_collected(struct pw_r_rescan *rescan, bool may_call) {
    if (rescan->watches && may_call && *rescan->marker == 1 && is_watched(rescan)) {
        visit_written(rescan, protect_range); // where it fails, pages are looked at without need
    }
}
