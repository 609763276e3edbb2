// SPDX-License-Identifier: MIT
//
// A library of the program's that brings a malloc of its own, with functions that no other has:
// a bump allocator that never reuses. As jemalloc does, it checks what it is handed.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM ((size_t)1 << 30)
#define MARK ((size_t)0x6f77656e64)

struct header {
    size_t mark, size;
};

static char *base;
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int other_owns(const void *block) {
    return base && (uintptr_t)block - (uintptr_t)base < ROOM;
}

static struct header *before(void *block) {
    return (struct header *)((char *)block - sizeof(struct header));
}

static struct header *header_of(void *block) {
    struct header *header = before(block);
    if (!other_owns(block) || header->mark != MARK) {
        abort();
    }
    return header;
}

static void *allocate(size_t alignment, size_t size) {
    char *block = NULL;
    pthread_mutex_lock(&lock);
    if (!base) {
        base = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    }
    alignment = alignment < 16 ? 16 : alignment;
    size_t at = (used + sizeof(struct header) + alignment - 1) & ~(alignment - 1);
    if (base != MAP_FAILED && size < ROOM && at + size < ROOM) {
        block = base + at;
        used = at + size;
        *before(block) = (struct header){MARK, size};
    }
    pthread_mutex_unlock(&lock);
    if (!block) {
        errno = ENOMEM;
    }
    return block;
}

void *memalign(size_t alignment, size_t size) {
    return allocate(alignment, size);
}

void *malloc(size_t size) {
    return allocate(16, size);
}

void *calloc(size_t count, size_t size) {
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? NULL : allocate(16, total);
}

void other_release(void *block) {
    header_of(block)->mark = 0;
}

void free(void *block) {
    if (block) {
        header_of(block)->mark = 0;
    }
}

size_t malloc_usable_size(void *block) {
    return block ? header_of(block)->size : 0;
}

void *realloc(void *block, size_t size) {
    void *moved = allocate(16, size);
    if (moved && block) {
        size_t held = header_of(block)->size;
        memcpy(moved, block, held < size ? held : size);
        header_of(block)->mark = 0;
    }
    return moved;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return allocate(alignment, size);
}

void *valloc(size_t size) {
    return allocate(4096, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = allocate(alignment, size);
    return *block ? 0 : ENOMEM;
}
