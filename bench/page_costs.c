// SPDX-License-Identifier: MIT
//
// What the kernel charges for pages on this machine, in microseconds of CPU time a 4 KB page, as
// JSON: the first touch of a small page, copy-on-write of one, the first touch within a huge page,
// a write into a memory file, and one trivial system call. Each is the median of several rounds.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, PAGE = 4096 };
static const size_t SIZE = (size_t)64 << 20;

static double cpu_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static char *map(size_t size, int flags, int file) {
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    if (address == MAP_FAILED)
        die("mmap");
    return address;
}

static double touch(char *at) {
    double start = cpu_microseconds();
    for (size_t i = 0; i < SIZE; i += PAGE)
        ((volatile char *)at)[i] = 1;
    return (cpu_microseconds() - start) / (double)(SIZE / PAGE);
}

static double small_touch(void) {
    char *at = map(SIZE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    madvise(at, SIZE, MADV_NOHUGEPAGE);
    double cost = touch(at);
    munmap(at, SIZE);
    return cost;
}

static double huge_touch(void) {
    const size_t huge = (size_t)2 << 20;
    char *raw = map(SIZE + huge, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char *at = (char *)(((size_t)raw + huge - 1) & ~(huge - 1));
    madvise(at, SIZE, MADV_HUGEPAGE);
    double cost = touch(at);
    munmap(raw, SIZE + huge);
    return cost;
}

static int memory_file(double *write_cost) {
    int file = memfd_create("page-costs", MFD_CLOEXEC);
    char *data = malloc(1 << 20);
    if (file < 0 || !data)
        die("memfd_create");
    memset(data, 1, 1 << 20);
    double start = cpu_microseconds();
    for (size_t done = 0; done < SIZE; done += 1 << 20)
        if (write(file, data, 1 << 20) != 1 << 20)
            die("write");
    *write_cost = (cpu_microseconds() - start) / (double)(SIZE / PAGE);
    free(data);
    return file;
}

// Pages that have been read through the mapping before, as a shared copy's usually have.
static double copy(int file) {
    char *at = map(SIZE, MAP_PRIVATE, file);
    volatile char sum = 0;
    for (size_t i = 0; i < SIZE; i += PAGE)
        sum = (char)(sum + at[i]);
    double cost = touch(at);
    munmap(at, SIZE);
    return cost;
}

static double call(void) {
    double start = cpu_microseconds();
    for (int i = 0; i < 100000; i++)
        syscall(SYS_getppid);
    return (cpu_microseconds() - start) / 100000;
}

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

int main(void) {
    double touches[ROUNDS], copies[ROUNDS], huges[ROUNDS], writes[ROUNDS], calls[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        touches[i] = small_touch();
        huges[i] = huge_touch();
        int file = memory_file(&writes[i]);
        copies[i] = copy(file);
        close(file);
        calls[i] = call();
    }
    printf("{\"touch_us\": %.3f, \"copy_us\": %.3f, \"huge_us\": %.3f, \"write_us\": %.3f, "
           "\"call_us\": %.3f}\n",
           median(touches), median(copies), median(huges), median(writes), median(calls));
    return 0;
}
