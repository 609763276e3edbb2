// Makes code while it runs, allocates by it, and writes a perf map of it: `HOW [MAP]`. MAP says
// what is wrong with the map. Prints its process's number, and "done" at the end.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

// Calls `callee` with the size. The third argument is for by_any alone.
typedef void *(*generated)(size_t size, void *callee, uintptr_t pointer);

// push %rbp; mov %rsp,%rbp; call *%rsi; nop; pop %rbp; ret
static const unsigned char by_pointer[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x90, 0x5d, 0xc3};
// The same, returning at once: push %rbp; mov %rsp,%rbp; call *%rsi; pop %rbp; ret
static const unsigned char by_return[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
// As CPython's: sub $8,%rsp; call *%rsi; add $8,%rsp; ret
static const unsigned char trampoline[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6,
                                           0x48, 0x83, 0xc4, 0x08, 0xc3};
// Its frame pointer is the third argument: push %rbp; mov %rdx,%rbp; call *%rsi; nop; pop %rbp; ret
static const unsigned char by_any[] = {0x55, 0x48, 0x89, 0xd5, 0xff, 0xd6, 0x90, 0x5d, 0xc3};

// Onto the stack that ends at the third argument, never to return:
// mov %rdx,%rsp; push $0x11111000; jmp *%rsi
static const unsigned char elsewhere[] = {0x48, 0x89, 0xd4, 0x68, 0x00,
                                          0x10, 0x11, 0x11, 0xff, 0xe6};

static char *code;

#define ROOM 64 // of each function

static generated add(int place, const unsigned char *bytes, size_t size) {
    memcpy(code + place * ROOM, bytes, size);
    return (generated)(uintptr_t)(code + place * ROOM);
}

__attribute__((noinline)) void *innermost(size_t size) {
    void *volatile block = malloc(size);
    return block;
}

// As large as the functions of an interpreter, with registers saved and a frame realigned.
__attribute__((noinline)) void *native(generated call, size_t size, void *callee) {
    _Alignas(64) volatile char room[512];
    room[size % sizeof room] = 1;
    void *volatile block = call(size, callee, 0);
    return block;
}

static generated inner;

__attribute__((noinline)) void *between(size_t size) {
    void *volatile block = native(inner, size, innermost);
    return block;
}

static void write_map(const char *wrong) {
    char path[64], other[80];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    snprintf(other, sizeof other, "%s.other", path);
    unlink(path);
    const char *place = strcmp(wrong, "symlink") == 0 ? other : path;
    if (strcmp(wrong, "fifo") == 0) {
        CHECK(mkfifo(path, 0600) == 0);
        return;
    }
    FILE *map = fopen(place, "w");
    CHECK(map);
    if (strcmp(wrong, "rubbish") == 0) {
        for (int i = 0; i < 100000; i++) {
            fputc(rand(), map);
        }
        fprintf(map, "\n0 ffffffffffffffff all\nfffffffffffffff0 20 past\n%tx zz no\n",
                (intptr_t)code);
    }
    fprintf(map, "%tx %x py::Class.method:/some where/a.py\n", (intptr_t)code, ROOM);
    fprintf(map, "%tx %x JS:*render /app/b.js:12:5\n", (intptr_t)code + ROOM, ROOM);
    fprintf(map, "%tx %x stub\n", (intptr_t)code + 2 * ROOM, ROOM);
    CHECK(fclose(map) == 0);
    if (strcmp(wrong, "symlink") == 0) {
        CHECK(symlink(other, path) == 0);
    } else if (strcmp(wrong, "linked") == 0) {
        CHECK(link(path, other) == 0);
    } else if (strcmp(wrong, "another's") == 0) {
        CHECK(chown(path, 65534, 65534) == 0);
    } else if (strcmp(wrong, "huge") == 0) {
        CHECK(truncate(path, ((off_t)64 << 20) + 1) == 0);
    } else if (strcmp(wrong, "old") == 0) {
        struct timespec times[] = {{1000000000, 0}, {1000000000, 0}};
        CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
    }
}

// Frame pointers that lead anywhere: nothing of it may be read but the stack.
__attribute__((noinline)) static void call_by_any(generated call, int times) {
    volatile uintptr_t fake[64];
    uintptr_t low = (uintptr_t)fake, high = low + sizeof fake;
    for (int i = 0; i < times; i++) {
        for (size_t at = 0; at < 64; at++) {
            uintptr_t kinds[] = {low + (uintptr_t)rand() % sizeof fake / 8 * 8,
                                 high + (uintptr_t)rand() % 8192 / 8 * 8,
                                 (uintptr_t)innermost + (uintptr_t)rand() % 2000,
                                 (uintptr_t)malloc + (uintptr_t)rand() % 100000,
                                 (uintptr_t)code + (uintptr_t)rand() % 4096,
                                 (uintptr_t)rand() << 32 | (uintptr_t)rand(),
                                 (uintptr_t)rand() << 16,
                                 (uintptr_t)rand() % 8};
            fake[at] = kinds[rand() % 8];
        }
        uintptr_t pointers[] = {low + (uintptr_t)rand() % sizeof fake / 8 * 8,
                                low + (uintptr_t)rand() % sizeof fake,
                                fake[rand() % 64],
                                low - 4096,
                                (uintptr_t)-8,
                                0};
        free(call(48, malloc, pointers[rand() % 6]));
    }
}

#define OWN_STACK (1 << 18)

static jmp_buf before;

static void allocate_and_leave(size_t size) {
    free(innermost(size));
    longjmp(before, 1);
}

// What a thread does first, on a coroutine's stack, whose outermost call returns to no code.
static void *start_elsewhere(void *call) {
    char *stack = mmap(NULL, OWN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    if (setjmp(before) == 0) {
        ((generated)call)(48, allocate_and_leave, (uintptr_t)stack + OWN_STACK);
    }
    free(innermost(5000));
    return NULL;
}

static uintptr_t in_library;
static int has_ended;

// Frame pointers lead to addresses in a library that nobody is in.
static void *call_into_library(void *call) {
    volatile uintptr_t fake[64];
    for (unsigned i = 0; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED); i++) {
        for (unsigned at = 0; at < 64; at += 2) {
            fake[at] = at < 62 ? (uintptr_t)(fake + at + 2) : 0;
            fake[at + 1] = in_library + 5 + i % 61;
        }
        free(((generated)call)(48, malloc, (uintptr_t)fake));
    }
    return NULL;
}

static void unload(generated call, int times) {
    pthread_t threads[2];
    for (int i = 0; i < times; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        CHECK(library);
        in_library = (uintptr_t)dlsym(library, "fmod");
        for (int k = 0; k < 2 && i == 0; k++) {
            CHECK(pthread_create(&threads[k], NULL, call_into_library, (void *)call) == 0);
        }
        CHECK(dlclose(library) == 0);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
}

void __register_frame(void *tables);
const void *_Unwind_Find_FDE(void *address, void *bases);

// As compilers to memory do it; the second asks for them, as an exception does. Under the lock of
// the list of tables, both allocate.
static void register_tables(int times) {
    static uint64_t all[512][10];
    for (int i = 0; i < times; i++) {
        // With what all entries have in common before it and an end behind.
        uint32_t words[] = {20, 0, 0x78010001, 0x08070c10, 0x00000190, 0,          28, 28,
                            0,  0, ROOM,       0,          0x0286100e, 0x00060d43, 0,  0};
        uint64_t start = (uintptr_t)code + (uintptr_t)i * ROOM;
        memcpy(words + 8, &start, sizeof start);
        memcpy(all[i], words, sizeof words);
        void *bases[3];
        __register_frame(all[i]);
        CHECK(_Unwind_Find_FDE((void *)(uintptr_t)(start + 1), bases));
    }
}

int main(int count, char **words) {
    (void)count;
    code =
        mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    generated python = add(0, trampoline, sizeof trampoline);
    generated script = add(1, by_pointer, sizeof by_pointer);
    generated stub = add(2, by_return, sizeof by_return);
    generated any = add(3, by_any, sizeof by_any);
    printf("%d\n", getpid());
    fflush(stdout);
    write_map(words[2] ? words[2] : "");
    void *volatile keep;
    if (strcmp(words[1], "strict") == 0) {
        // Afterwards nobody can be asked what may be read: what is known by then is.
        keep = native(script, 16, malloc);
        keep = native(python, 16, malloc);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    }
    // One in the other: what is behind a frame pointer is not certain, and yet right.
    inner = python;
    keep = native(script, 1000, between);
    inner = script;
    keep = native(python, 2000, between);
    // The allocator is called by generated code.
    keep = native(stub, 3000, malloc);
    (void)keep;
    if (strcmp(words[1], "wild") == 0) {
        call_by_any(any, 20000);
    }
    if (strcmp(words[1], "elsewhere") == 0) {
        pthread_t thread;
        generated call = add(4, elsewhere, sizeof elsewhere);
        CHECK(pthread_create(&thread, NULL, start_elsewhere, (void *)call) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (strcmp(words[1], "unloading") == 0) {
        unload(any, 2000);
    } else if (strcmp(words[1], "registering") == 0) {
        alarm(60); // else it would wait for ever
        register_tables(512);
    }
    CHECK(write(STDOUT_FILENO, "done\n", 5) == 5);
    syscall(SYS_exit, 0);
}
