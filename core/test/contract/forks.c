// SPDX-License-Identifier: MIT
//
// A child of fork() has all blocks, and malloc, whatever the threads of its parent were doing.
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { BLOCKS = 120 };

struct inheritance {
    void *data[BLOCKS];
    size_t size[BLOCKS];
};

static void gather(struct inheritance *all) {
    struct random random = {11};
    for (unsigned i = 0; i < BLOCKS; i++) {
        all->size[i] = i % 10 ? random_below(&random, 9000) : 128 * KILOBYTE + i * PAGE;
        all->data[i] = got(malloc(all->size[i]), all->size[i]);
        fill(all->data[i], all->size[i], i);
    }
}

static void check(const struct inheritance *all) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(holds(all->data[i], all->size[i], i));
    }
}

static void release(struct inheritance *all) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(all->data[i]);
    }
}

// What a child may do to its blocks.
static void use(struct inheritance *all) {
    check(all);
    for (unsigned i = 0; i < BLOCKS; i += 3) {
        free(all->data[i]);
    }
    for (unsigned i = 1; i < BLOCKS; i += 3) {
        all->data[i] = got(realloc(all->data[i], all->size[i] * 2 + 1), all->size[i] * 2 + 1);
        CHECK(holds(all->data[i], all->size[i], i));
        memset(all->data[i], 0, all->size[i]);
    }
    for (unsigned i = 0; i < BLOCKS; i += 3) {
        all->data[i] = got(calloc(1, all->size[i]), all->size[i]);
        CHECK(is_all(all->data[i], all->size[i], 0));
        fill(all->data[i], all->size[i], i + 1);
    }
    for (unsigned i = 2; i < BLOCKS; i += 3) {
        CHECK(holds(all->data[i], all->size[i], i));
    }
}

static void use_in_child(void *all) {
    use(all);
    release(all);
}

// --- blocks --------------------------------------------------------------------------

static void child_has_blocks(void) {
    static struct inheritance all;
    gather(&all);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(in_child(use_in_child, &all) == 0);
        check(&all);
    }
    release(&all);
}

static void use_in_grandchild(void *all) {
    CHECK(in_child(use_in_child, all) == 0);
    use(all);
    release(all);
}

static void grandchildren(void) {
    static struct inheritance all;
    gather(&all);
    CHECK(in_child(use_in_grandchild, &all) == 0);
    check(&all);
    release(&all);
}

// Parent and child write to the same blocks at the same time.
static void apart_after_fork(void) {
    static struct inheritance all;
    int way[2];
    char byte = 0;
    gather(&all);
    CHECK(pipe(way) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(way[1]);
        CHECK(read(way[0], &byte, 1) == 0); // until the parent is done
        check(&all);
        _exit(0);
    }
    close(way[0]);
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(all.data[i], 0x77, all.size[i]);
    }
    release(&all);
    gather(&all);
    for (unsigned i = 0; i < BLOCKS; i++) {
        fill(all.data[i], all.size[i], i + 99);
    }
    close(way[1]);
    wait_for(child);
    release(&all);
}

static void copies_in_child(void *unused) {
    (void)unused;
    for (size_t size = 64 * KILOBYTE; size <= 4 * MEGABYTE; size *= 4) {
        void *from = got(malloc(size), size), *to = got(malloc(size), size);
        fill(from, size, 5);
        memcpy(to, from, size);
        memset(from, 0, size);
        CHECK(holds(to, size, 5));
        free(from);
        CHECK(holds(to, size, 5));
        free(to);
    }
}

static void copies_over_forks(void) {
    size_t size = 2 * MEGABYTE;
    void *from = got(malloc(size), size), *to = got(malloc(size), size);
    fill(from, size, 1);
    memcpy(to, from, size);
    for (unsigned i = 0; i < 4; i++) {
        CHECK(in_child(copies_in_child, NULL) == 0);
        fill(from, size / 4 * (i + 1), i + 2);
        CHECK(holds(to, size, i + 1));
        fill(to, size, i + 2);
        memcpy(from, to, size);
    }
    free(from);
    CHECK(holds(to, size, 5));
    free(to);
}

// --- beside threads ------------------------------------------------------------------

static atomic_bool stop;

static void *keep_busy(void *argument) {
    struct random random = {(uintptr_t)argument};
    while (!stop) {
        size_t size = random_size(&random);
        void *block = malloc(size), *line = NULL;
        CHECK(block);
        block = realloc(block, size / 2 + 1);
        free(block);
        CHECK(asprintf((char **)&line, "%zu", size) > 0);
        free(line);
        free(calloc(1, size));
    }
    return NULL;
}

static void allocate_in_child(void *unused) {
    (void)unused;
    for (size_t i = 0; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
        unsigned char *block = got(calloc(1, edges[i]), edges[i]);
        CHECK(is_all(block, edges[i], 0));
        block = got(realloc(block, edges[i] * 2 + 1), edges[i] * 2 + 1);
        free(block);
    }
    for (unsigned i = 0; i < 1000; i++) {
        free(got(malloc(i), i));
    }
}

static void with_threads(void (*function)(void)) {
    void *threads[3];
    stop = false;
    for (uintptr_t i = 0; i < 3; i++) {
        threads[i] = new_thread(keep_busy, (void *)(i + 1));
    }
    function();
    stop = true;
    for (unsigned i = 0; i < 3; i++) {
        join(threads[i]);
    }
}

static void fork_often(void) {
    for (unsigned i = 0; i < 20; i++) {
        CHECK(in_child(allocate_in_child, NULL) == 0);
    }
}

static void beside_threads(void) {
    with_threads(fork_often);
}

static void *start_in_child(void *unused) {
    allocate_in_child(NULL);
    return unused;
}

static void threads_in_child(void *unused) {
    (void)unused;
    void *threads[3];
    for (unsigned i = 0; i < 3; i++) {
        threads[i] = new_thread(start_in_child, NULL);
    }
    for (unsigned i = 0; i < 3; i++) {
        join(threads[i]);
    }
}

static void fork_for_threads(void) {
    for (unsigned i = 0; i < 10; i++) {
        CHECK(in_child(threads_in_child, NULL) == 0);
    }
}

static void children_with_threads(void) {
    with_threads(fork_for_threads);
}

static void *fork_in_thread(void *unused) {
    for (unsigned i = 0; i < 10; i++) {
        CHECK(in_child(allocate_in_child, NULL) == 0);
    }
    return unused;
}

static void fork_in_threads_at_once(void) {
    void *threads[3];
    for (unsigned i = 0; i < 3; i++) {
        threads[i] = new_thread(fork_in_thread, NULL);
    }
    for (unsigned i = 0; i < 3; i++) {
        join(threads[i]);
    }
}

static void forks_of_threads(void) {
    with_threads(fork_in_threads_at_once);
}

// fork waits for streams, and who works with streams allocates.
static void *work_with_streams(void *unused) {
    while (!stop) {
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);
        CHECK(stream);
        for (unsigned i = 0; i < 200; i++) {
            fprintf(stream, "%u\n", i);
        }
        fflush(NULL);
        CHECK(fclose(stream) == 0);
        free(text);
    }
    return unused;
}

static void beside_streams(void) {
    void *threads[2];
    stop = false;
    for (unsigned i = 0; i < 2; i++) {
        threads[i] = new_thread(work_with_streams, NULL);
    }
    fork_often();
    stop = true;
    for (unsigned i = 0; i < 2; i++) {
        join(threads[i]);
    }
}

// --- handlers of forks ---------------------------------------------------------------

static void *in_handler[3];
static atomic_uint handled;

static void handle(unsigned which) {
    free(in_handler[which]);
    in_handler[which] = malloc(handled % 2 ? 180 * KILOBYTE : 180);
    CHECK(in_handler[which]);
    memset(in_handler[which], 1, 180);
    free(calloc(3, 70 * KILOBYTE));
    handled++;
}

static void before(void) {
    handle(0);
}

static void in_parent(void) {
    handle(1);
}

static void in_new_child(void) {
    handle(2);
}

static void atfork_handlers(void) {
    got(malloc(0), 0);
    free(got(malloc(MEGABYTE), MEGABYTE));
    CHECK(pthread_atfork(before, in_parent, in_new_child) == 0);
    fork_often();
    CHECK(handled == 40);
    with_threads(fork_often);
    CHECK(handled == 80);
}

// --- forks of other kinds ------------------------------------------------------------

static void spawned(void) {
    char *const words[] = {"sh", "-c", "exit 0", NULL};
    void *block = got(malloc(MEGABYTE), MEGABYTE);
    fill(block, MEGABYTE, 1);
    for (unsigned i = 0; i < 5; i++) {
        pid_t child = 0;
        posix_spawn_file_actions_t actions;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0) == 0);
        CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, words, environ) == 0);
        CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
        wait_for(child);
        CHECK(system("exit 0") == 0);
        child = vfork();
        if (child == 0) {
            execv("/bin/sh", words);
            _exit(1);
        }
        wait_for(child);
    }
    CHECK(holds(block, MEGABYTE, 1));
    free(block);
}

static void piped(void) {
    for (unsigned i = 0; i < 4; i++) {
        char *line = NULL;
        size_t size = 0;
        FILE *stream = popen("echo a line", "r");
        CHECK(stream && getline(&line, &size, stream) == 7);
        CHECK(pclose(stream) == 0);
        free(line);
        free(got(malloc(MEGABYTE), MEGABYTE));
    }
}

const struct promise fork_promises[] = {
    {"child-has-blocks", "a child has its parent's blocks, to use and to free", child_has_blocks,
     0},
    {"grandchildren", "and so has its child", grandchildren, 0},
    {"apart-after-fork", "neither sees what the other writes", apart_after_fork, 0},
    {"copies-over-forks", "copies made before a fork and after it are copies", copies_over_forks,
     0},
    {"beside-threads", "a child has malloc while threads of its parent allocate", beside_threads,
     UNSERVED},
    {"children-with-threads", "and may have threads of its own", children_with_threads, UNSERVED},
    {"forks-of-threads", "several threads may fork at once", forks_of_threads, UNSERVED},
    {"beside-streams", "a fork does not wait for streams for ever", beside_streams, UNSERVED},
    {"atfork-handlers", "handlers of pthread_atfork allocate and free", atfork_handlers, ALONE},
    {"spawned", "posix_spawn, system and vfork leave blocks as they are", spawned, 0},
    {"piped", "popen and getline", piped, 0},
    {0},
};
