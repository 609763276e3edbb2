// SPDX-License-Identifier: MIT
//
// The calls of pagewise.h: each goes to the plain heap, or to the one that checks (checked.c).
#include "transaction/transaction.h"

#include <errno.h>

struct pw_heap *pw_heap_new(const struct pw_heap_options *options) {
    static const struct pw_heap_options defaults;
    options = options ? options : &defaults;
    if (!pw_options_make_sense(options)) {
        errno = EINVAL;
        return NULL;
    }
    if (!pw_os_pages_fit()) {
        errno = ENOSYS;
        return NULL;
    }
    struct pw_heap_whole *heap = pw_plain_new(options);
    if (heap && (options->flags & PW_HEAP_CHECKED) && !pw_checker_new(heap)) {
        pw_plain_delete(heap);
        heap = NULL;
    }
    if (!heap) {
        errno = ENOMEM;
    }
    return heap ? &heap->hot : NULL;
}

void pw_heap_delete(struct pw_heap *heap) {
    if (heap) {
        pw_checker_delete(pw_whole(heap));
        pw_plain_delete(pw_whole(heap));
    }
}

void *pw_heap_alloc_slow(struct pw_heap *heap, size_t size) {
    if (pw_whole(heap)->checker) {
        return pw_checker_alloc(pw_whole(heap), size, PW_NATURAL_ALIGNMENT, false);
    }
    bool zero;
    return pw_plain_alloc(pw_whole(heap), size, &zero);
}

void *pw_heap_alloc(struct pw_heap *heap, size_t size) {
    return pw_heap_alloc_inline(heap, size);
}

void *pw_heap_alloc_packed(struct pw_heap *heap, size_t size) {
    if (size > PW_HEAP_PACKED_BYTES || pw_whole(heap)->checker) {
        return pw_heap_alloc_slow(heap, size);
    }
    return pw_plain_alloc_small(pw_whole(heap), pw_heap_packed_table[(size + 7) >> 3]);
}

void *pw_heap_zalloc(struct pw_heap *heap, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return pw_whole(heap)->checker
               ? pw_checker_alloc(pw_whole(heap), bytes, PW_NATURAL_ALIGNMENT, true)
               : pw_plain_zalloc(pw_whole(heap), bytes);
}

void *pw_heap_aligned(struct pw_heap *heap, size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > PW_LARGEST_ALIGNMENT) {
        errno = EINVAL;
        return NULL;
    }
    return pw_whole(heap)->checker ? pw_checker_alloc(pw_whole(heap), size, alignment, false)
                                   : pw_plain_aligned(pw_whole(heap), alignment, size);
}

void pw_heap_free_slow(struct pw_heap *heap, void *block) {
    if (!block) {
        return;
    }
    if (pw_whole(heap)->checker) {
        pw_checker_free(pw_whole(heap), block);
    } else {
        pw_large_release(pw_whole(heap), block);
    }
}

void pw_heap_free(struct pw_heap *heap, void *block) {
    pw_heap_free_inline(heap, block);
}

size_t pw_heap_usable_size(struct pw_heap *heap, const void *block) {
    if (!block) {
        return 0;
    }
    return pw_whole(heap)->checker ? pw_checker_usable_size(pw_whole(heap), block)
                                   : pw_plain_usable_size(pw_whole(heap), block);
}

void *pw_heap_realloc(struct pw_heap *heap, void *block, size_t size) {
    if (!block) {
        return pw_heap_alloc_inline(heap, size);
    }
    return pw_whole(heap)->checker ? pw_checker_realloc(pw_whole(heap), block, size)
                                   : pw_plain_realloc(pw_whole(heap), block, size);
}

// --- the whole heap ------------------------------------------------------------------

// Where the blocks are.
static struct pw_heap_whole *inner_of(struct pw_heap *heap) {
    struct pw_heap_whole *whole = pw_whole(heap);
    return whole->checker ? pw_checker_inner(whole) : whole;
}

void pw_heap_free_all(struct pw_heap *heap) {
    struct pw_heap_whole *whole = pw_whole(heap);
    if (whole->checker) {
        pw_checker_free_all(whole);
        whole->transaction++;
    } else {
        pw_plain_free_all(whole);
    }
}

size_t pw_heap_reclaim(struct pw_heap *heap, bool give_back) {
    struct pw_heap_whole *inner = inner_of(heap);
    inner->resorts->let_go(inner);
    size_t reclaimed = inner->resorts->reclaim(inner);
    if (give_back) {
        pw_giants_drop_idle(inner);
        pw_chunks_unmap_free(inner);
    }
    return reclaimed;
}

size_t pw_heap_segment_bytes(struct pw_heap *heap) {
    return inner_of(heap)->segment_bytes;
}

void pw_heap_set_limit(struct pw_heap *heap, size_t limit_bytes) {
    pw_whole(heap)->options.limit_bytes = limit_bytes;
    inner_of(heap)->options.limit_bytes = limit_bytes;
}

bool pw_heap_walk(struct pw_heap *heap, pw_heap_visitor *visit, void *context) {
    struct pw_heap_whole *whole = pw_whole(heap);
    return whole->checker ? pw_checker_walk(whole, visit, context)
                          : pw_plain_walk(whole, visit, context);
}

void pw_heap_statistics_read(struct pw_heap *heap, struct pw_heap_statistics *out) {
    struct pw_heap_whole *inner = inner_of(heap);
    inner->resorts->count_free_blocks(inner);
    pw_plain_statistics(inner, out);
    out->transactions = pw_whole(heap)->transaction - 1;
}

bool pw_heap_contains(struct pw_heap *heap, const void *address) {
    return pw_plain_contains(inner_of(heap), address);
}
