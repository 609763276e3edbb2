// SPDX-License-Identifier: GPL-2.0
/*
 * What a copy of memory costs, and what reading and writing it costs afterwards:
 *
 *	bench MEGABYTES ROUNDS [fork]
 *
 * With "fork" only that, for a kernel without the call.
 * Every round does each method once, so that what disturbs the machine disturbs
 * all of them. One line for each step:
 *
 *	BENCH pages=small|huge method=M round=N step=S ms=T
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __NR_mmapcopy
#define __NR_mmapcopy 600
#endif
#define PAGE	   4096UL
#define HUGE_BYTES (2UL << 20)

static size_t size;
static const char *pages;
static int round_number;

/* Where a forked child leaves what it measured. */
static volatile double *in_child;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void tell(const char *method, const char *step, double ms)
{
	printf("BENCH pages=%s method=%s round=%d step=%s ms=%.4f\n", pages, method, round_number,
	       step, ms);
	fflush(stdout);
}

static void fail(const char *what)
{
	printf("bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static char *map_memory(int huge)
{
	char *raw = mmap(NULL, size + HUGE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned = (char *)(((uintptr_t)raw + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));

	if (raw == MAP_FAILED)
		fail("mmap");
	if (aligned > raw)
		munmap(raw, aligned - raw);
	munmap(aligned + size, raw + HUGE_BYTES - aligned);
	madvise(aligned, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return aligned;
}

static void fill(char *p)
{
	for (size_t i = 0; i < size; i += 8)
		*(uint64_t *)(p + i) = i * 0x9E3779B97F4A7C15ULL;
}

static double read_all(const char *p)
{
	double begin = now();
	uint64_t sum = 0;

	for (size_t i = 0; i < size; i += 64)
		sum += *(volatile uint64_t *)(p + i);
	return now() - begin;
}

static double write_every(char *p, size_t stride)
{
	double begin = now();

	for (size_t i = 0; i < size; i += stride)
		(*(volatile uint64_t *)(p + i))++;
	return now() - begin;
}

static const char *const step_names[] = { "read-all", "write-1%", "write-all" };

static void use(char *p, volatile double *ms)
{
	ms[0] = read_all(p);
	ms[1] = write_every(p, 100 * PAGE);
	ms[2] = write_every(p, PAGE);
}

/* The copy first, then the source: whoever writes second is the last owner. */
static void use_both(const char *method, char *copy, char *source)
{
	double ms[3];
	char step[32];

	use(copy, ms);
	for (int i = 0; i < 3; i++)
		tell(method, step_names[i], ms[i]);
	use(source, ms);
	for (int i = 0; i < 3; i++) {
		snprintf(step, sizeof(step), "source-%s", step_names[i]);
		tell(method, step, ms[i]);
	}
}

static void drop(const char *method, char *p)
{
	double begin = now();

	munmap(p, size);
	tell(method, "unmap", now() - begin);
}

static int do_mmapcopy(char *source)
{
	double begin = now();
	char *copy = (char *)syscall(__NR_mmapcopy, NULL, source, size, 0);

	if (copy == MAP_FAILED)
		return -1;
	tell("mmapcopy", "copy", now() - begin);
	use_both("mmapcopy", copy, source);
	drop("mmapcopy", copy);
	return 0;
}

/* Returns in parent and child, in the child when the parent writes to *go: it would share the parent's processor. */
static pid_t fork_that_waits(int *go, const char *method)
{
	double begin;
	int ends[2];
	pid_t child;
	char byte;

	if (pipe(ends))
		fail("pipe");
	begin = now();
	child = fork();
	if (child < 0)
		fail("fork");
	if (child) {
		tell(method, "copy", now() - begin);
		close(ends[0]);
		*go = ends[1];
		return child;
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		_exit(1);
	return 0;
}

static void do_fork(char *source)
{
	char step[32];
	double ms[3];
	int go;
	pid_t child;

	in_child[2] = 0;
	child = fork_that_waits(&go, "fork");
	if (!child) {
		use(source, in_child);
		pause();
	}
	if (write(go, "x", 1) != 1)
		fail("write");
	while (in_child[2] == 0)
		usleep(1000);
	for (int i = 0; i < 3; i++)
		tell("fork", step_names[i], in_child[i]);
	use(source, ms);
	for (int i = 0; i < 3; i++) {
		snprintf(step, sizeof(step), "source-%s", step_names[i]);
		tell("fork", step, ms[i]);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(go);
}

/* Nothing but fork, so that kernels with and without the call have the same history. */
static void do_fork_alone(int huge)
{
	char *source = map_memory(huge);

	fill(source);
	for (int i = 0; i < 10; i++) {
		int go;
		pid_t child = fork_that_waits(&go, "fork-alone");

		if (!child)
			_exit(0);
		/* The child finds its pipe closed, and ends. */
		close(go);
		waitpid(child, NULL, 0);
		/* The parent's own again, and writable. */
		write_every(source, PAGE);
	}
	munmap(source, size);
}

static void do_memcpy(char *source, int huge)
{
	double begin = now();
	char *copy = map_memory(huge);

	memcpy(copy, source, size);
	tell("memcpy-fresh", "copy", now() - begin);
	use_both("memcpy-fresh", copy, source);
	begin = now();
	memcpy(copy, source, size);
	tell("memcpy-warm", "copy", now() - begin);
	use_both("memcpy-warm", copy, source);
	drop("memcpy-fresh", copy);
}

/* As Pagewise does without the call: the contents are in a file already. */
static void do_published(void)
{
	int fd = memfd_create("bench", 0);
	double begin;
	char *copy, *source;

	if (fd < 0 || ftruncate(fd, size))
		fail("memfd");
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	begin = now();
	fill(copy);
	tell("published", "publish", now() - begin);
	munmap(copy, size);
	source = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	begin = now();
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	tell("published", "copy", now() - begin);
	if (copy == MAP_FAILED || source == MAP_FAILED)
		fail("mmap");
	/* Each side's private pages are given back: the machine holds two sets. */
	double ms[3];

	use(copy, ms);
	for (int i = 0; i < 3; i++)
		tell("published", step_names[i], ms[i]);
	drop("published", copy);
	munmap(source, size);
	close(fd);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 3;

	size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20;
	in_child = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int huge = 0; huge < 2; huge++) {
		pages = huge ? "huge" : "small";
		do_fork_alone(huge);
	}
	if (argc > 3 && !strcmp(argv[3], "fork"))
		return 0;
	for (int huge = 0; huge < 2; huge++) {
		pages = huge ? "huge" : "small";
		for (round_number = 1; round_number <= rounds; round_number++) {
			/* Unshared again for each method: none pays for another's copy. */
			char *source = map_memory(huge);

			fill(source);
			if (do_mmapcopy(source))
				printf("BENCH no mmapcopy in this kernel\n");
			munmap(source, size);
			source = map_memory(huge);
			fill(source);
			do_fork(source);
			munmap(source, size);
			source = map_memory(huge);
			fill(source);
			do_memcpy(source, huge);
			munmap(source, size);
			if (!huge)
				do_published();
		}
	}
	return 0;
}
