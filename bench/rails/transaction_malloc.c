// SPDX-License-Identifier: MIT
//
// The transaction heap as a program's malloc, for a measurement: what the paper did with Ruby. One
// heap behind one lock; nothing ever frees it as a whole.
#define _GNU_SOURCE
#include <errno.h>
#include <pagewise_heap.h>
#include <pthread.h>

#define EXPORT       __attribute__((visibility("default")))
#define LARGEST_STEP ((size_t)1 << 20) // the heap aligns to no more

static struct {
    pthread_mutex_t lock;
    struct pw_heap *heap;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) {
    pthread_mutex_lock(&process.lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&process.lock);
}

__attribute__((constructor)) static void start(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

static struct pw_heap *enter(void) {
    pthread_mutex_lock(&process.lock);
    if (!process.heap) {
        process.heap = pw_heap_new(NULL);
    }
    return process.heap;
}

static void *leave(void *block) {
    pthread_mutex_unlock(&process.lock);
    return block;
}

EXPORT void *malloc(size_t size) {
    struct pw_heap *heap = enter();
    return leave(heap ? pw_heap_alloc_inline(heap, size) : NULL);
}

EXPORT void free(void *block) {
    if (block) {
        pw_heap_free_inline(enter(), block);
        leave(NULL);
    }
}

EXPORT void *calloc(size_t count, size_t size) {
    struct pw_heap *heap = enter();
    return leave(heap ? pw_heap_zalloc(heap, count, size) : NULL);
}

EXPORT void *realloc(void *block, size_t size) {
    struct pw_heap *heap = enter();
    return leave(heap ? pw_heap_realloc(heap, block, size) : NULL);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    struct pw_heap *heap = enter();
    return leave(heap ? pw_heap_aligned(heap, alignment, size) : NULL);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || alignment & (alignment - 1) || alignment > LARGEST_STEP) {
        return EINVAL;
    }
    void *block = memalign(alignment, size);
    *out = block ? block : *out;
    return block ? 0 : ENOMEM;
}

EXPORT size_t malloc_usable_size(void *block) {
    size_t size = 0;
    if (block) {
        size = pw_heap_usable_size(enter(), block);
        leave(NULL);
    }
    return size;
}
