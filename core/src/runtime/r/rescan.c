// SPDX-License-Identifier: MIT
#include "runtime/r/rescan.h"

#include "process/state.h"

// Between pages with frozen nodes, within a span: a call for each span costs more than to protect
// what lies between.
#define LARGEST_GAP ((uintptr_t)8 * PW_PAGE)

// --- nodes ----------------------------------------------------------------------------

struct looking {
    struct pw_r_rescan *rescan;
    struct pw_r_frozen_page *page;
    bool fits;
};

static void look_at_child(void *context, struct pw_r_node *child) {
    struct looking *looking = context;
    struct pw_r_rescan *rescan = looking->rescan;
    if (child != rescan->nothing && child != rescan->global && looking->fits &&
        !pw_r_set_has(rescan->frozen, child)) {
        looking->fits = pw_r_roots_add(rescan->roots, looking->page, child);
    }
}

static bool look_at_node(void *context, struct pw_r_node *node) {
    struct looking *looking = context;
    return pw_r_each_child(node, look_at_child, looking) && looking->fits;
}

static bool look_at_page(struct pw_r_rescan *rescan, struct pw_r_frozen_page *page) {
    struct looking looking = {.rescan = rescan, .page = page, .fits = true};
    pw_r_roots_drop(rescan->roots, page, rescan->nothing);
    return pw_r_page_each(page, look_at_node, &looking);
}

static bool look_at_all(struct pw_r_rescan *rescan) {
    for (size_t i = 0; i < rescan->pages->count; i++) {
        if (!look_at_page(rescan, &rescan->pages->pages[i])) {
            return false;
        }
    }
    return true;
}

// --- pages of memory --------------------------------------------------------------------

static size_t span_table_size(const struct pw_r_rescan *rescan) {
    return pw_pages_for(rescan->span_room * sizeof *rescan->spans) * PW_PAGE;
}

static bool find_spans(struct pw_r_rescan *rescan) {
    const struct pw_r_frozen_pages *pages = rescan->pages;
    rescan->span_room = pages->count + 1;
    rescan->spans = pw_os_map_table(span_table_size(rescan));
    rescan->span_count = 0;
    for (size_t i = 0; rescan->spans && i < pages->count; i++) {
        uintptr_t start = (uintptr_t)pages->pages[i].page & ~(PW_PAGE - 1);
        uintptr_t end = (pw_r_page_end(pages, &pages->pages[i]) + PW_PAGE - 1) & ~(PW_PAGE - 1);
        struct pw_r_span *last = &rescan->spans[rescan->span_count];
        if (rescan->span_count > 0 && start <= last[-1].end + LARGEST_GAP) {
            last[-1].end = end;
        } else {
            *last = (struct pw_r_span){start, end};
            rescan->span_count++;
        }
    }
    return rescan->spans != NULL;
}

// The whole mapping, so that their number does not grow. Where it ends; 0: it cannot be watched.
// Blocks of ours move their pages.
static uintptr_t watch_mapping(struct pw_r_rescan *rescan, uintptr_t address) {
    struct pw_os_mapping mapping = {0};
    bool done = pw_os_mapping_from((const void *)address, &mapping) &&
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
            end = at = watch_mapping(rescan, at);
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

static bool take_spans(struct pw_r_rescan *rescan, pw_os_visit *visit) {
    for (size_t i = 0; i < rescan->span_count; i++) {
        const struct pw_r_span *span = &rescan->spans[i];
        if (!pw_os_written_take(&rescan->written, span->start, span->end, visit, rescan)) {
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
    if (!watch_mappings(rescan) || !take_spans(rescan, ignore_range)) {
        pw_os_written_close(&rescan->written);
        return false;
    }
    return true;
}

static bool look_at_range(void *context, char *start, size_t size) {
    struct pw_r_rescan *rescan = context;
    struct pw_r_frozen_pages *pages = rescan->pages;
    uintptr_t end = (uintptr_t)start + size;
    for (size_t i = pw_r_frozen_pages_find(pages, (uintptr_t)start);
         i < pages->count && (uintptr_t)pages->pages[i].page < end; i++) {
        if (!look_at_page(rescan, &pages->pages[i])) {
            return false;
        }
    }
    return true;
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
    rescan->watches = watch_pages && rescan->marker && find_spans(rescan) && watch(rescan);
    if (rescan->watches) {
        *rescan->marker = 1;
    }
}

void pw_r_rescan_stop(struct pw_r_rescan *rescan, bool may_call) {
    if (rescan->watches && may_call) {
        pw_os_written_close(&rescan->written);
    }
    if (rescan->spans && may_call) {
        pw_os_unmap(rescan->spans, span_table_size(rescan));
    }
    rescan->watches = false;
    rescan->spans = NULL;
}

static void watch_again(struct pw_r_rescan *rescan) {
    pw_os_written_close(&rescan->written);
    rescan->watches = watch(rescan);
    *rescan->marker = 1;
}

bool pw_r_rescan_look(struct pw_r_rescan *rescan, bool may_call) {
    bool begins = rescan->begins;
    rescan->begins = false;
    rescan->watches = rescan->watches && may_call; // for good: a later look would miss this time's
    if (begins || !rescan->watches) {
        return look_at_all(rescan);
    }
    // In a child of a fork nothing is watched, and the descriptors tell of its parent's memory.
    bool is_child = *rescan->marker != 1;
    if (!is_child && is_watched(rescan) && take_spans(rescan, look_at_range)) {
        return true;
    }
    watch_again(rescan);
    return look_at_all(rescan);
}

// The collector writes marks and links alone. What it wrote need not be looked at, but for the next
// writes to be told.
void pw_r_rescan_collected(struct pw_r_rescan *rescan, bool may_call) {
    if (rescan->watches && may_call && *rescan->marker == 1 && is_watched(rescan)) {
        take_spans(rescan, ignore_range); // where it fails, pages are looked at without need
    }
}
