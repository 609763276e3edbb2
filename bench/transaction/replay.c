// SPDX-License-Identifier: MIT
//
// Replay cut transactions (cut.py) against one allocator, through function pointers, touching
// objects:
//     replay ALLOCATOR FILE [ROUNDS]
// ALLOCATOR is pagewise, pagewise-huge, region, obstack, mimalloc-heap (preload a mimalloc) or
// malloc (the C library's, or a preloaded one's). Each line of the output is of one transaction:
//     NUMBER NANOSECONDS-OF-CPU(median) NANOSECONDS(lowest) PEAK-BYTES OPERATIONS
// An allocated object is written once in each cache line, and its first byte is read before it is
// freed. Peak bytes are the process's physical memory above what it was before the first
// transaction, over the transactions up to this one.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <obstack.h>
#include <pagewise.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FREE  0x80000000u
#define LINE  64
#define WARMS 3

struct allocator {
    const char *name;
    void *(*begin)(void *heap);
    void *(*alloc)(void *heap, size_t size);
    void (*free)(void *heap, void *block);
    void (*free_all)(void *heap); // NULL: blocks are freed one by one
};

// --- pagewise ------------------------------------------------------------------

static void *pagewise_begin(void *heap) {
    return heap ? heap : pw_heap_new(NULL);
}
static void *huge_begin(void *heap) {
    struct pw_heap_options options = {.flags = PW_HEAP_HUGE_PAGES};
    return heap ? heap : pw_heap_new(&options);
}
static void *pagewise_alloc(void *heap, size_t size) {
    return pw_heap_alloc(heap, size);
}
static void pagewise_free(void *heap, void *block) {
    pw_heap_free(heap, block);
}
static void pagewise_free_all(void *heap) {
    pw_heap_free_all(heap);
}

// --- region and obstack -----------------------------------------------------------

static void *region_begin(void *region) {
    return region ? region : pw_region_new(NULL);
}
static void *region_alloc(void *region, size_t size) {
    return pw_region_alloc(region, size);
}
static void region_free(void *region, void *block) {
    pw_region_free(region, block);
}
static void region_free_all(void *region) {
    pw_region_free_all(region);
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free  free
static struct obstack obstack;

static void *begin_obstack(void *heap) {
    if (!heap) {
        // Its chunks come from malloc, which would give them back to the kernel at each free-all.
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        obstack_begin(&obstack, 64 << 10);
        obstack_alignment_mask(&obstack) = 15;
    }
    return &obstack;
}
static void *obstack_take(void *heap, size_t size) {
    return obstack_alloc((struct obstack *)heap, size);
}
static void nothing(void *heap, void *block) {
    (void)heap;
    (void)block;
}
static void obstack_free_all(void *heap) {
    obstack_free((struct obstack *)heap, NULL);
    obstack_begin(&obstack, 64 << 10);
    obstack_alignment_mask(&obstack) = 15;
}

// --- mimalloc's heaps, and malloc ------------------------------------------------------

static void *(*mi_heap_new)(void);
static void *(*mi_heap_malloc)(void *heap, size_t size);
static void (*mi_heap_destroy)(void *heap);
static void (*mi_free)(void *block);

static void *mimalloc_begin(void *heap) {
    if (!heap && !mi_heap_new) {
        *(void **)&mi_heap_new = dlsym(RTLD_DEFAULT, "mi_heap_new");
        *(void **)&mi_heap_malloc = dlsym(RTLD_DEFAULT, "mi_heap_malloc");
        *(void **)&mi_heap_destroy = dlsym(RTLD_DEFAULT, "mi_heap_destroy");
        *(void **)&mi_free = dlsym(RTLD_DEFAULT, "mi_free");
        if (!mi_heap_new || !mi_heap_malloc || !mi_heap_destroy || !mi_free) {
            fprintf(stderr, "replay: no mimalloc is preloaded\n");
            exit(2);
        }
    }
    return mi_heap_new();
}
static void *mimalloc_alloc(void *heap, size_t size) {
    return mi_heap_malloc(heap, size);
}
static void mimalloc_free(void *heap, void *block) {
    (void)heap;
    mi_free(block);
}
static void mimalloc_free_all(void *heap) {
    mi_heap_destroy(heap);
}

static void *malloc_begin(void *heap) {
    return heap ? heap : (void *)1;
}
static void *malloc_alloc(void *heap, size_t size) {
    (void)heap;
    return malloc(size);
}
static void malloc_free(void *heap, void *block) {
    (void)heap;
    free(block);
}

static const struct allocator allocators[] = {
    {"pagewise", pagewise_begin, pagewise_alloc, pagewise_free, pagewise_free_all},
    {"pagewise-huge", huge_begin, pagewise_alloc, pagewise_free, pagewise_free_all},
    {"region", region_begin, region_alloc, region_free, region_free_all},
    {"obstack", begin_obstack, obstack_take, nothing, obstack_free_all},
    {"mimalloc-heap", mimalloc_begin, mimalloc_alloc, mimalloc_free, mimalloc_free_all},
    {"malloc", malloc_begin, malloc_alloc, malloc_free, NULL},
};

// --- replay ----------------------------------------------------------------------------------

struct transaction {
    uint32_t slots, operation_count, live_count;
    const uint32_t *operations, *live;
};

static void fail(const char *what) {
    fprintf(stderr, "replay: %s\n", what);
    exit(2);
}

static volatile uint64_t sink;

static void run(const struct allocator *with, void *heap, const struct transaction *transaction,
                void **slots) {
    void *(*alloc)(void *, size_t) = with->alloc;
    void (*give_back)(void *, void *) = with->free;
    const uint32_t *at = transaction->operations, *end = at + transaction->operation_count;
    uint64_t sum = 0;
    while (at < end) {
        uint32_t operation = *at++;
        if (operation & FREE) {
            void *block = slots[operation & ~FREE];
            sum += *(volatile unsigned char *)block;
            give_back(heap, block);
        } else {
            size_t size = *at++;
            volatile char *block = alloc(heap, size);
            for (size_t line = 0; line < size; line += LINE) {
                block[line] = (char)line;
            }
            slots[operation] = (void *)block;
        }
    }
    if (with->free_all) {
        with->free_all(heap);
    } else {
        for (uint32_t i = 0; i < transaction->live_count; i++) {
            give_back(heap, slots[transaction->live[i]]);
        }
    }
    sink = sum;
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t status_bytes(const char *field) {
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[got < 0 ? 0 : got] = 0;
    const char *at = strstr(text, field);
    return at ? strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

static void forget_peak(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    if (fd < 0 || write(fd, "5", 1) != 1) {
        fail("/proc/self/clear_refs cannot be written: no peaks can be measured");
    }
    close(fd);
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static const uint32_t *load(const char *path, const uint32_t **end) {
    int fd = open(path, O_RDONLY);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0 || about.st_size < 12) {
        fail("the file of transactions cannot be read");
    }
    const char *data =
        mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED || memcmp(data, "PWTX0001", 8) != 0) {
        fail("not a file of transactions (cut.py)");
    }
    *end = (const uint32_t *)(data + about.st_size);
    return (const uint32_t *)(data + 8);
}

static size_t most_slots(const uint32_t *at, const uint32_t *end, uint32_t count) {
    size_t most = 1;
    for (; count > 0; count--) {
        if (end - at < 3 || (size_t)(end - at) < (size_t)3 + at[1] + at[2]) {
            fail("the file of transactions is cut off");
        }
        most = at[0] > most ? at[0] : most;
        at += (size_t)3 + at[1] + at[2];
    }
    return most;
}

int main(int argc, char **argv) {
    const struct allocator *with = NULL;
    for (size_t i = 0; argc >= 3 && i < sizeof allocators / sizeof *allocators; i++) {
        with = strcmp(argv[1], allocators[i].name) ? with : &allocators[i];
    }
    if (!with) {
        fail("usage: replay ALLOCATOR FILE [ROUNDS]");
    }
    unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 20;
    const uint32_t *end, *at = load(argv[2], &end);
    uint32_t count = *at++;
    size_t slots_size = most_slots(at, end, count) * sizeof(void *);
    void **slots =
        mmap(NULL, slots_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *times =
        mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *heap = NULL;
    memset(times, 1, 1 << 20);
    memset(slots, 1, slots_size);
    status_bytes("VmRSS:");
    uint64_t before = status_bytes("VmRSS:");
    for (uint32_t number = 0; number < count; number++) {
        struct transaction transaction = {at[0], at[1], at[2], at + 3, at + 3 + at[1]};
        at = transaction.live + transaction.live_count;
        forget_peak();
        for (unsigned round = 0; round < WARMS + rounds; round++) {
            uint64_t start = cpu_ns();
            heap = with->begin(heap);
            run(with, heap, &transaction, slots);
            if (round >= WARMS) {
                times[round - WARMS] = cpu_ns() - start;
            }
        }
        uint64_t peak = status_bytes("VmHWM:");
        qsort(times, rounds, sizeof *times, compare);
        printf("%u %lu %lu %lu %u\n", number, times[rounds / 2], times[0],
               peak > before ? peak - before : 0, transaction.operation_count);
    }
    return 0;
}
