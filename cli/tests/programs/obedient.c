// Does what it is told line by line, and answers each with a line. Ends with status 3.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST   10000
#define PLACES 64
#define STEPS  60000

static void *kept[MOST];
static int count;
static void *exchanged[PLACES];

__attribute__((noinline)) static void *keep(size_t size) {
    void *block = malloc(size);
    return block;
}

__attribute__((noinline)) static void use_shortly(size_t size) {
    void *block = malloc(size);
    free(block);
}

// Blocks go from thread to thread, by way of malloc, free and realloc.
__attribute__((noinline)) static void *churn(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        size_t place = random >> 10 & (PLACES - 1);
        size_t size = 16 + (random >> 20) % 500;
        void *block = i % 3 == 0 ? malloc(size) : __atomic_exchange_n(&exchanged[place], NULL, 5);
        if (block && i % 5 == 0) {
            block = realloc(block, size);
        }
        block = __atomic_exchange_n(&exchanged[random >> 16 & (PLACES - 1)], block, 5);
        free(block);
    }
    return NULL;
}

static void in_threads(int threads) {
    pthread_t all[16];
    for (int i = 0; i < threads && i < 16; i++) {
        pthread_create(&all[i], NULL, churn, (void *)(size_t)(i + 1));
    }
    for (int i = 0; i < threads && i < 16; i++) {
        pthread_join(all[i], NULL);
    }
}

// Code for x86-64 that the program makes while it runs: it calls its second argument with its
// first.
static void *(*generated)(size_t, void *(*)(size_t));

static void generate(void) {
    static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd6,
                                         0x48, 0x83, 0xc4, 8, 0xc3};
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        memcpy(page, code, sizeof code);
        generated = page;
        kept[count++] = generated(77, malloc);
    }
}

static void name_generated(void) {
    char path[100], line[100];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    int length = snprintf(line, sizeof line, "%lx 10 made_here\n", (unsigned long)generated);
    int map = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (map < 0 || write(map, line, (size_t)length) != length) {
        _exit(1);
    }
    close(map);
}

// The child has 33 blocks of its own, and ends with its parent.
static int child_of(void) {
    int ready[2];
    if (pipe(ready) != 0) {
        return -1;
    }
    int child = fork();
    if (child == 0) {
        int orders[2];
        int parent = getppid();
        for (int i = 0; i < 33; i++) {
            keep(50);
        }
        if (write(ready[1], "x", 1) != 1 || pipe(orders) != 0) {
            _exit(1);
        }
        while (getppid() == parent) {
            usleep(20000);
        }
        _exit(0);
    }
    char letter;
    return read(ready[0], &letter, 1) == 1 ? child : -1;
}

int main(void) {
    char line[1000];
    static char in[1], out[1000];
    // No buffer of stdio's that would be allocated; nothing is read that another program of this
    // process should.
    setvbuf(stdin, in, _IONBF, 0);
    setvbuf(stdout, out, _IOLBF, sizeof out);
    printf("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        const char *word = strchr(line, ' ');
        int number = word ? atoi(word) : 0;
        if (strncmp(line, "allocate", 8) == 0) {
            for (int i = 0; i < number && count < MOST; i++) {
                kept[count++] = keep(100);
                use_shortly(1000);
            }
        } else if (strncmp(line, "free", 4) == 0) {
            for (int i = 0; i < number && count > 0; i++) {
                free(kept[--count]);
            }
        } else if (strcmp(line, "generate") == 0) {
            generate();
        } else if (strcmp(line, "name") == 0) {
            name_generated();
            printf("name: /tmp/perf-%d.map\n", getpid());
            continue;
        } else if (strncmp(line, "threads", 7) == 0) {
            in_threads(number);
        } else if (strncmp(line, "fork", 4) == 0) {
            printf("fork: %d\n", child_of());
            continue;
        } else if (strncmp(line, "execute", 7) == 0) {
            execl(word + 1, word + 1, NULL);
        }
        printf("%s: done\n", line);
    }
    fflush(stdout);
    _exit(3);
}
