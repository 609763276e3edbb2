// SPDX-License-Identifier: MIT
#include "heap_model.h"
#include "pagewise.h"
#include "pagewise_heap.h"
#include "support.h"

#include <assert.h>

#define BLOCKS      600
#define EDGE        ((size_t)256) // of blocks above WHOLE only so much is filled, at both ends
#define WHOLE       ((size_t)16 << 10)
#define MOST_MEMORY ((size_t)96 << 20)

struct block {
    unsigned char *data; // NULL: none
    size_t size;
    unsigned char seed;
    bool from_alloc; // by pw_heap_alloc or zalloc: may be freed with its size
};

struct heap_model {
    struct pw_heap *heap;
    bool checked;
    struct block blocks[BLOCKS];
    size_t count, bytes;
    size_t limit;
    const uint8_t *data, *end;
    unsigned char next_seed;
};

static unsigned byte_of(struct heap_model *model) {
    return model->data < model->end ? *model->data++ : 0;
}

static unsigned word_of(struct heap_model *model) {
    unsigned low = byte_of(model);
    return low | byte_of(model) << 8;
}

static size_t size_of(struct heap_model *model) {
    unsigned kind = byte_of(model);
    if (kind < 160) {
        return kind * 2;
    }
    if (kind < 220) {
        return word_of(model) % 4096;
    }
    if (kind < 250) {
        return word_of(model);
    }
    return kind == 250 ? (size_t)word_of(model) * 160 : (size_t)word_of(model) * 8;
}

// --- contents -------------------------------------------------------------------

static unsigned char expected(const struct block *block, size_t at) {
    return (unsigned char)(block->seed + at * 7);
}

static void fill(struct block *block, size_t from) {
    for (size_t at = from; at < block->size; at++) {
        if (block->size > WHOLE && at == EDGE) {
            at = block->size - EDGE;
        }
        block->data[at] = expected(block, at);
    }
}

static void verify(const struct block *block, size_t size) {
    for (size_t at = 0; at < size; at++) {
        if (block->size > WHOLE && at == EDGE) {
            at = block->size - EDGE;
        }
        CHECK(at >= size || block->data[at] == expected(block, at));
    }
}

// --- operations -----------------------------------------------------------------------

static struct block *place(struct heap_model *model) {
    return &model->blocks[word_of(model) % BLOCKS];
}

static void drop(struct heap_model *model, struct block *block, unsigned how) {
    if (!block->data) {
        return;
    }
    verify(block, block->size);
    if (how == 0 && block->from_alloc) {
        pw_heap_free_sized_inline(model->heap, block->data, block->size);
    } else if (how == 1) {
        pw_heap_free_inline(model->heap, block->data);
    } else {
        pw_heap_free(model->heap, block->data);
    }
    model->count--;
    model->bytes -= block->size;
    *block = (struct block){0};
}

enum origin { OF_ALLOC, PACKED, ALIGNED };

static void accept(struct heap_model *model, struct block *block, void *data, size_t size,
                   enum origin origin) {
    if (!data) {
        CHECK(errno == ENOMEM && model->limit);
        return;
    }
    CHECK(pw_heap_usable_size(model->heap, data) >= size);
    CHECK((uintptr_t)data % (size > 8 && origin != PACKED ? 16 : 8) == 0);
    *block = (struct block){data, size, model->next_seed++, origin == OF_ALLOC};
    fill(block, 0);
    model->count++;
    model->bytes += size;
}

static bool has_room(const struct heap_model *model, size_t size) {
    return model->bytes + size < MOST_MEMORY;
}

static void allocate(struct heap_model *model, unsigned how) {
    struct block *block = place(model);
    size_t size = size_of(model);
    drop(model, block, how);
    if (!has_room(model, size)) {
        return;
    }
    void *data;
    if (how == 2) {
        data = pw_heap_zalloc(model->heap, size % 8 ? 1 : 8, size % 8 ? size : size / 8);
        for (size_t at = 0; data && at < size; at++) {
            CHECK(((unsigned char *)data)[at] == 0);
        }
    } else if (how == 1) {
        data = pw_heap_alloc_inline(model->heap, size);
    } else {
        data = pw_heap_alloc(model->heap, size);
    }
    accept(model, block, data, size, OF_ALLOC);
}

static void allocate_packed(struct heap_model *model, bool called) {
    struct block *block = place(model);
    size_t size = size_of(model);
    drop(model, block, 1);
    if (has_room(model, size)) {
        void *data = called ? pw_heap_alloc_packed(model->heap, size)
                            : pw_heap_alloc_packed_inline(model->heap, size);
        accept(model, block, data, size, PACKED);
    }
}

static void allocate_aligned(struct heap_model *model) {
    struct block *block = place(model);
    size_t alignment = (size_t)1 << byte_of(model) % 21, size = size_of(model);
    drop(model, block, 2);
    if (has_room(model, size)) {
        void *data = pw_heap_aligned(model->heap, alignment, size);
        CHECK((uintptr_t)data % alignment == 0);
        accept(model, block, data, size, ALIGNED);
    }
}

static void resize(struct heap_model *model) {
    struct block *block = place(model);
    size_t size = size_of(model);
    if (!block->data || !has_room(model, size) || (size > WHOLE) != (block->size > WHOLE)) {
        return; // contents of larger blocks are only known at their ends
    }
    if (size > WHOLE) {
        verify(block, block->size);
    }
    unsigned char *data = pw_heap_realloc(model->heap, block->data, size);
    if (!data) {
        CHECK(errno == ENOMEM && model->limit);
        verify(block, block->size);
        return;
    }
    CHECK(pw_heap_usable_size(model->heap, data) >= size);
    block->data = data;
    size_t kept = size < block->size ? size : block->size;
    verify(block, size > WHOLE ? EDGE : kept);
    model->bytes += size - block->size;
    block->size = size;
    block->from_alloc = false;
    fill(block, size > WHOLE ? 0 : kept);
}

static void free_all(struct heap_model *model) {
    for (int i = 0; i < BLOCKS; i++) {
        if (model->blocks[i].data) {
            verify(&model->blocks[i], model->blocks[i].size);
        }
    }
    pw_heap_free_all(model->heap);
    memset(model->blocks, 0, sizeof model->blocks);
    model->count = model->bytes = 0;
}

struct census {
    struct heap_model *model;
    size_t seen;
};

static bool count_block(void *data, size_t usable, void *context) {
    struct census *census = context;
    for (int i = 0; i < BLOCKS; i++) {
        const struct block *block = &census->model->blocks[i];
        if (block->data == data) {
            CHECK(usable >= block->size);
            census->seen++;
            return true;
        }
    }
    CHECK(!"a live block that nobody has");
    return false;
}

static void inspect(struct heap_model *model) {
    struct census census = {model, 0};
    CHECK(pw_heap_walk(model->heap, count_block, &census) && census.seen == model->count);
    struct pw_heap_statistics now;
    pw_heap_statistics_read(model->heap, &now);
    CHECK(now.live_bytes + now.free_bytes + now.fresh_bytes + now.slack_bytes == now.segment_bytes);
    CHECK(now.empty_segment_bytes <= now.free_bytes && now.live_bytes >= model->bytes);
    CHECK(model->checked || now.live_blocks == model->count);
    CHECK(now.peak_segment_bytes >= now.segment_bytes && now.mapped_bytes >= now.segment_bytes);
}

static void reclaim(struct heap_model *model) {
    size_t before = pw_heap_segment_bytes(model->heap);
    size_t reclaimed = pw_heap_reclaim(model->heap, byte_of(model) % 2);
    size_t now = pw_heap_segment_bytes(model->heap);
    CHECK(now <= before && reclaimed <= before - now);
    CHECK(model->checked || reclaimed == before - now);
    struct pw_heap_statistics after;
    pw_heap_statistics_read(model->heap, &after);
    CHECK(after.empty_segment_bytes == 0);
    CHECK(pw_heap_reclaim(model->heap, true) == 0);
}

static void change_limit(struct heap_model *model) {
    unsigned kind = byte_of(model);
    model->limit = kind < 128 ? 0 : (size_t)(kind - 127) << 18;
    pw_heap_set_limit(model->heap, model->limit);
}

// Returns whether that ended the transaction.
static bool step(struct heap_model *model) {
    unsigned operation = byte_of(model);
    if (operation < 80) {
        allocate(model, operation % 3);
    } else if (operation < 120) {
        allocate_packed(model, operation % 2);
    } else if (operation < 210) {
        drop(model, place(model), operation % 3);
    } else if (operation < 225) {
        resize(model);
    } else if (operation < 238) {
        allocate_aligned(model);
    } else if (operation < 244) {
        change_limit(model);
    } else if (operation < 248) {
        inspect(model);
    } else if (operation < 250) {
        reclaim(model);
    } else {
        free_all(model);
        return true;
    }
    return false;
}

struct heap_model *heap_model_new(const uint8_t *data, size_t size) {
    struct heap_model *model = calloc(1, sizeof *model);
    CHECK(model);
    model->data = data;
    model->end = data + size;
    unsigned first = byte_of(model), second = byte_of(model);
    struct pw_heap_options options = {
        .segment_bytes = first % 6 == 0 ? 0 : (size_t)8192 << first % 6,
        .flags = second % 8, // huge pages, return, checked
        .keep_bytes = !(second & 64) ? (size_t)(second >> 3 & 7) << 19
                      : second & 128 ? SIZE_MAX
                                     : SIZE_MAX / 2, // much, but not all
    };
    model->checked = options.flags & PW_HEAP_CHECKED;
    model->heap = pw_heap_new(&options);
    CHECK(model->heap);
    return model;
}

// What is in use does not grow beyond the limit.
static bool limited_step(struct heap_model *model) {
    size_t before = pw_heap_segment_bytes(model->heap);
    bool ended = step(model);
    size_t now = pw_heap_segment_bytes(model->heap);
    CHECK(now <= before || model->limit == 0 || now <= model->limit);
    return ended;
}

bool heap_model_transaction(struct heap_model *model) {
    while (model->data < model->end && !limited_step(model)) {}
    return model->data < model->end;
}

void heap_model_delete(struct heap_model *model) {
    inspect(model);
    pw_heap_delete(model->heap);
    free(model);
}

void heap_model_run(const uint8_t *data, size_t size) {
    struct heap_model *model = heap_model_new(data, size);
    while (heap_model_transaction(model)) {}
    heap_model_delete(model);
}
