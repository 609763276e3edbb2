// SPDX-License-Identifier: MIT
//
// Loops of malloc and free, for comparing allocators that are preloaded:
//     loops PATTERN THREADS OPERATIONS [BLOCKS]
// THREADS 0: in the first thread, without starting any. Prints seconds, CPU seconds, KB at the
// peak, the most mappings that were counted, and KB in memory after $SETTLE more seconds.
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 16
#define RING         4096

static long operations;
static unsigned long blocks = 10000;

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

// Most blocks are small, as in servers written in dynamic languages.
static size_t choose_size(uint64_t *state) {
    uint64_t random = next(state);
    unsigned percent = (random >> 40) % 100;
    random >>= 8;
    if (percent < 60) {
        return 16 + random % 112;
    }
    if (percent < 90) {
        return 128 + random % 900;
    }
    return percent < 98 ? 1024 + random % 7000 : 8192 + random % 24000;
}

static void *allocate(size_t size) {
    char *block = malloc(size);
    if (!block) {
        abort();
    }
    block[0] = block[size - 1] = 1;
    return block;
}

static long most_mappings;

static void note_mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    long count = 0;
    for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file)) {
        count += c == '\n';
    }
    if (file) {
        fclose(file);
    }
    most_mappings = count > most_mappings ? count : most_mappings;
}

static void *replace(void *number) {
    uint64_t state = 0x1234567 + (uintptr_t)number * 77;
    void **held = calloc(blocks, sizeof *held);
    for (long i = 0; i < operations; i++) {
        unsigned long at = (next(&state) >> 20) % blocks;
        free(held[at]);
        held[at] = allocate(choose_size(&state));
    }
    for (unsigned long i = 0; i < blocks; i++) {
        free(held[i]);
    }
    free(held);
    return NULL;
}

static void *pairs(void *number) {
    uint64_t state = 99 + (uintptr_t)number;
    for (long i = 0; i < operations; i++) {
        void *held[8];
        for (int j = 0; j < 8; j++) {
            held[j] = allocate(16 + (next(&state) >> 30) % 200);
        }
        for (int j = 0; j < 8; j++) {
            free(held[j]);
        }
    }
    return NULL;
}

static struct ring {
    void *held[RING];
    unsigned long head, tail;
} rings[MOST_THREADS];

static void *produce(void *number) {
    struct ring *ring = &rings[(uintptr_t)number];
    uint64_t state = 5 + (uintptr_t)number;
    for (long i = 0; i < operations; i++) {
        void *block = allocate(16 + (next(&state) >> 30) % 500);
        while (ring->head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= RING) {
            sched_yield();
        }
        ring->held[ring->head % RING] = block;
        __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consume(void *number) {
    struct ring *ring = &rings[(uintptr_t)number];
    for (long i = 0; i < operations; i++) {
        while (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == ring->tail) {
            sched_yield();
        }
        free(ring->held[ring->tail % RING]);
        __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void touch(char *block, size_t size) {
    for (size_t at = 0; at < size; at += 4096) {
        ((volatile char *)block)[at] = 1;
    }
}

// Blocks of 33 KB to 1 MB, each of whose pages is written, replaced at random.
static void *medium(void *number) {
    uint64_t state = 17 + (uintptr_t)number;
    unsigned long many = blocks < 100 ? blocks : 100;
    void *held[100] = {0};
    for (long i = 0; i < operations; i++) {
        unsigned long at = (next(&state) >> 20) % many;
        size_t size = (size_t)(33 << 10) << (next(&state) >> 40) % 5;
        free(held[at]);
        held[at] = allocate(size + (next(&state) >> 30) % size);
        touch(held[at], size);
    }
    note_mappings();
    for (unsigned long i = 0; i < many; i++) {
        free(held[i]);
    }
    return NULL;
}

// One block at a time, as the answer of a server.
static void *answers(void *number) {
    uint64_t state = 23 + (uintptr_t)number;
    for (long i = 0; i < operations; i++) {
        size_t size = (size_t)(60 << 10) + (next(&state) >> 30) % (80 << 10);
        char *block = allocate(size);
        touch(block, size);
        free(block);
    }
    return NULL;
}

// Buffers that grow by an eighth in turn, as Python's lists do, to 128 KB.
static void *growth(void *number) {
    (void)number;
    for (long round = 0; round < operations; round++) {
        char **held = calloc(blocks, sizeof *held);
        for (size_t size = 64; size < (size_t)128 << 10; size += size / 8 + 48) {
            for (unsigned long i = 0; i < blocks; i++) {
                held[i] = realloc(held[i], size);
                held[i][size - 1] = 1;
            }
        }
        note_mappings();
        for (unsigned long i = 0; i < blocks; i++) {
            free(held[i]);
        }
        free(held);
    }
    return NULL;
}

// One buffer that grows to 16 MB, and is filled.
static void *append(void *number) {
    (void)number;
    for (long round = 0; round < operations; round++) {
        char *block = NULL;
        size_t filled = 0;
        for (size_t size = 64; size < (size_t)16 << 20; size += size / 8 + 48) {
            block = realloc(block, size);
            memset(block + filled, 1, size - filled);
            filled = size;
        }
        free(block);
    }
    note_mappings();
    return NULL;
}

// As Shbench's sh6: runs of equal sizes up to 1,000 bytes, released in two orders.
static void *runs(void *number) {
    uint64_t state = 31 + (uintptr_t)number;
    static __thread void *held[4096];
    unsigned count = 0;
    for (long i = 0; i < operations;) {
        size_t size = 1 + (next(&state) >> 30) % 1000;
        for (unsigned many = 1 + (unsigned)(next(&state) >> 40) % 60; many > 0 && count < 4096;
             many--) {
            held[count++] = allocate(size);
            i++;
        }
        if (count == 4096 || next(&state) >> 61 == 0) {
            unsigned keep = count / 4; // the oldest, then from both ends
            for (unsigned at = keep; at < count; at += 2) {
                free(held[at]);
            }
            for (unsigned at = count - 1; at > keep; at--) {
                if ((at - keep) % 2) {
                    free(held[at]);
                }
            }
            count = keep;
        }
    }
    while (count > 0) {
        free(held[--count]);
    }
    return NULL;
}

// A heap of one size after another, of which one block in 16 lives on.
static void *phases(void *number) {
    uint64_t state = 41 + (uintptr_t)number;
    void **held = calloc(blocks, sizeof *held);
    for (long phase = 0; phase < operations; phase++) {
        for (unsigned long i = 0; i < blocks; i++) {
            if (!held[i]) {
                size_t size = (size_t)(64 << phase % 6) + (next(&state) >> 30) % (64 << phase % 6);
                held[i] = memset(allocate(size), 1, size);
            }
        }
        for (unsigned long i = 0; i < blocks; i++) {
            if (next(&state) >> 60) {
                free(held[i]);
                held[i] = NULL;
            }
        }
    }
    note_mappings();
    for (unsigned long i = 0; i < blocks; i++) {
        free(held[i]);
    }
    free(held);
    return NULL;
}

// What stays resident of 240 MB of which one block in 512 lives, while the program does nothing.
static void *idle(void *number) {
    (void)number;
    enum { SIZE = 128, COUNT = (240 << 20) / SIZE };
    void **held = calloc(COUNT, sizeof *held);
    for (int i = 0; i < COUNT; i++) {
        held[i] = memset(allocate(SIZE), 1, SIZE);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 512) {
            free(held[i]);
        }
    }
    note_mappings();
    return NULL;
}

// getrusage tells the peak of whoever started this program, where that was more.
static long peak_kb(void) {
    char line[256];
    long peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %ld", &peak) != 1) {}
    return file ? (fclose(file), peak) : 0;
}

static long resident_kb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1) {
        pages = 0;
    }
    return file ? (fclose(file), pages * 4) : 0;
}

// As Larson and Krishnan's: a thread replaces blocks of 10 to 1,000 bytes at random, and hands all
// of them to a successor, which it starts.
struct shift {
    void *held[1000];
    uint64_t state;
    long left;
};

static void *work_shift(void *own) {
    struct shift *shift = own;
    for (long i = 0; i < 10000; i++) {
        unsigned long at = (next(&shift->state) >> 20) % 1000;
        free(shift->held[at]);
        shift->held[at] = allocate(10 + (next(&shift->state) >> 30) % 990);
    }
    pthread_t successor;
    if ((shift->left -= 10000) > 0 && pthread_create(&successor, NULL, work_shift, own) == 0) {
        pthread_join(successor, NULL);
    }
    return NULL;
}

static void *larson(void *number) {
    struct shift *shift = calloc(1, sizeof *shift);
    shift->state = 51 + (uintptr_t)number;
    shift->left = operations;
    work_shift(shift);
    for (int i = 0; i < 1000; i++) {
        free(shift->held[i]);
    }
    free(shift);
    return NULL;
}

// As Berger's cache-thrash: a block that is written again and again. Two threads' blocks in one
// cache line would show.
static void write_often(char *block) {
    for (int i = 0; i < 500; i++) {
        ((volatile char *)block)[i % 8]++;
    }
}

static void *thrash(void *number) {
    (void)number;
    for (long i = 0; i < operations; i++) {
        char *block = allocate(8);
        write_often(block);
        free(block);
    }
    return NULL;
}

// As his cache-scratch: the first block of each thread was the first thread's.
static void *first_blocks[MOST_THREADS + 1];

static void *scratch(void *number) {
    free(first_blocks[(uintptr_t)number]);
    first_blocks[(uintptr_t)number] = NULL;
    return thrash(number);
}

// As Shbench's sh8: as many small blocks as large ones, replaced in runs, the oldest or the newest.
static void *mixed_runs(void *number) {
    uint64_t state = 61 + (uintptr_t)number;
    static __thread void *held[8192];
    for (long i = 0; i < operations;) {
        unsigned first = (unsigned)(next(&state) >> 20) % 8192;
        size_t most = (next(&state) >> 60) % 2 ? 64 : 4000;
        size_t size = 1 + (next(&state) >> 30) % most;
        for (unsigned j = 0; j < 48; j++, i++) {
            unsigned at = (next(&state) >> 63 ? first + j : first - j) % 8192;
            free(held[at]);
            held[at] = allocate(size);
        }
    }
    for (unsigned i = 0; i < 8192; i++) {
        free(held[i]);
        held[i] = NULL;
    }
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static const struct {
    const char *name;
    void *(*body)(void *number);
} patterns[] = {
    {"replace", replace}, {"pairs", pairs},      {"hand-over", produce}, {"medium", medium},
    {"answers", answers}, {"growth", growth},    {"append", append},     {"runs", runs},
    {"phases", phases},   {"idle", idle},        {"larson", larson},     {"thrash", thrash},
    {"scratch", scratch}, {"mixed", mixed_runs},
};

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: loops PATTERN THREADS OPERATIONS [BLOCKS]\n");
        return 2;
    }
    void *(*body)(void *) = NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        body = strcmp(arguments[1], patterns[i].name) == 0 ? patterns[i].body : body;
    }
    if (!body) {
        fprintf(stderr, "loops: no pattern is called %s\n", arguments[1]);
        return 2;
    }
    unsigned long threads = strtoul(arguments[2], NULL, 10) % (MOST_THREADS + 1);
    operations = strtol(arguments[3], NULL, 10);
    blocks = count > 4 ? strtoul(arguments[4], NULL, 10) : blocks;
    bool hands_over = body == produce;
    pthread_t started[2 * MOST_THREADS];
    unsigned running = 0;
    for (uintptr_t i = 0; body == scratch && i <= threads; i++) {
        first_blocks[i] = allocate(8);
    }
    double begin = now();
    if (threads == 0) {
        body((void *)1);
    }
    for (uintptr_t i = 0; i < threads; i++) {
        pthread_create(&started[running++], NULL, body, (void *)i);
        if (hands_over) {
            pthread_create(&started[running++], NULL, consume, (void *)i);
        }
    }
    while (running > 0) {
        pthread_join(started[--running], NULL);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    note_mappings();
    double taken = now() - begin, used = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    long peak = peak_kb();
    const char *settle = getenv("SETTLE");
    if (settle) {
        sleep((unsigned)strtoul(settle, NULL, 10));
    }
    printf("%.4f %.4f %ld %ld %ld\n", taken, used, peak, most_mappings, resident_kb());
    return 0;
}
