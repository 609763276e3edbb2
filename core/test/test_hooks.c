// SPDX-License-Identifier: MIT
//
// Switching on and off by global offset tables, with libraries that stand for R and its packages:
// test_hooks FOLDER, which holds libR.so, lazy/libs/lazy.so and strict/libs/strict.so.
#include "support.h"

#include <dlfcn.h>
#include <pagewise.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct module {
    void *(*allocate)(size_t);
    void *(*allocate_zeroed)(size_t);
    void *(*resize)(void *, size_t);
    void (*release)(void *);
    void *(*copy)(void *, const void *, size_t);
    void *(*load)(const char *);
    long (*call)(int, int, void *, size_t);
    int (*call_named)(const char *);
};

static char folder[256];

static const char *path_to(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct module functions_of(void *library) {
    struct module module = {
        (void *(*)(size_t))dlsym(library, "module_allocate"),
        (void *(*)(size_t))dlsym(library, "module_allocate_zeroed"),
        (void *(*)(void *, size_t))dlsym(library, "module_resize"),
        (void (*)(void *))dlsym(library, "module_free"),
        (void *(*)(void *, const void *, size_t))dlsym(library, "module_copy"),
        (void *(*)(const char *))dlsym(library, "module_load"),
        (long (*)(int, int, void *, size_t))dlsym(library, "module_call"),
        (int (*)(const char *))dlsym(library, "module_call_named"),
    };
    return module;
}

static struct module load(const char *name) {
    void *library = dlopen(path_to(name), RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        fail_msg("%s", dlerror());
    }
    return functions_of(library);
}

static uint64_t live(void) {
    struct pw_statistics block = {0};
    pw_statistics_read(&block, sizeof block);
    return block.live_bytes;
}

static bool serves(const struct module *module) {
    void *block = module->allocate(MB);
    bool ours = pw_owns(block);
    memset(block, 1, MB);
    module->release(block);
    return ours;
}

// Protections of the mappings of a file, one character triple each.
static void protections(const char *name, char *out, size_t size) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    size_t used = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        const char *space = strchr(line, ' ');
        if (strstr(line, name) && space && used + 4 < size) {
            memcpy(out + used, space + 1, 3);
            used += 3;
        }
    }
    out[used] = 0;
    fclose(maps);
}

static void options_are_checked_before_anything_is_changed(void **state) {
    const char *reason = NULL;
    (void)state;
    struct module r = load("libR.so");
    assert_false(pw_switch_on("policy=auto,threshold=nonsense", &reason));
    assert_non_null(strstr(reason, "threshold=nonsense"));
    assert_false(pw_switch_on("policy=ksm", &reason));
    assert_non_null(strstr(reason, "pagewise run"));
    assert_false(pw_switch_on("policy=plain", NULL));
    assert_false(pw_is_on());
    assert_false(serves(&r));
}

static void only_modules_of_r_are_served(void **state) {
    (void)state;
    struct module r = load("libR.so");
    assert_true(pw_switch_on("policy=auto", NULL));
    assert_true(serves(&r));
    void *volatile own = malloc(MB);
    assert_false(pw_owns(own));
    free(own);
    pw_switch_off();
    assert_false(serves(&r));
}

static void libraries_that_r_loads_later_are_served(void **state) {
    (void)state;
    struct module r = load("libR.so");
    assert_true(pw_switch_on("policy=auto", NULL));
    void *library = r.load(path_to("lazy/libs/lazy.so"));
    assert_non_null(library);
    struct module package = functions_of(library);
    assert_true(serves(&package));
    dlclose(library);
    library = r.load(path_to("lazy/libs/lazy.so"));
    package = functions_of(library);
    assert_true(serves(&package));
    pw_switch_off();
    assert_false(serves(&package));
}

static void read_only_tables_are_read_only_again(void **state) {
    char before[256], after[256];
    (void)state;
    struct module package = load("strict/libs/strict.so");
    protections("strict.so", before, sizeof before);
    assert_true(pw_switch_on("policy=auto", NULL));
    assert_true(serves(&package));
    protections("strict.so", after, sizeof after);
    assert_string_equal(before, after);
    pw_switch_off();
    assert_false(serves(&package));
    protections("strict.so", after, sizeof after);
    assert_string_equal(before, after);
}

static void blocks_outlive_the_switch(void **state) {
    (void)state;
    struct module r = load("libR.so");
    uint64_t before = live();
    void *older = r.allocate(2 * MB);
    memset(older, 7, 2 * MB);
    assert_true(pw_switch_on("policy=share", NULL));
    char *one = r.allocate(4 * MB), *two = r.allocate(4 * MB);
    memset(one, 3, 4 * MB);
    r.copy(two, one, 4 * MB);
    older = r.resize(older, 3 * MB); // a block of the C library
    pw_switch_off();
    assert_int_equal(((char *)older)[2 * MB - 1], 7);
    two[0] = 4;
    assert_int_equal(one[0], 3);
    assert_int_equal(two[4 * MB - 1], 3);
    r.release(one);
    two = r.resize(two, 5 * MB);
    assert_int_equal(two[0], 4);
    assert_int_equal(two[4 * MB - 1], 3);
    r.release(two);
    r.release(older);
    assert_int_equal(live(), before);
}

// The program itself is not hooked: its free and realloc reach the C library.
static void others_may_release_and_resize_our_blocks(void **state) {
    (void)state;
    struct module r = load("libR.so");
    uint64_t before = live();
    assert_true(pw_switch_on("policy=auto,decay=0", NULL));
    for (int i = 0; i < 50; i++) {
        char *freed = r.allocate(MB), *shrunk = r.allocate(4 * MB), *grown = r.allocate(MB);
        assert_true(pw_owns(freed) && pw_owns(shrunk) && pw_owns(grown));
        memset(freed, 1, MB);
        memset(shrunk, 2, 4 * MB);
        memset(grown, 3, MB);
        char *volatile away = freed;
        free(away);
        shrunk = realloc(shrunk, MB);
        grown = realloc(grown, 8 * MB);
        assert_int_equal(shrunk[MB - 1], 2);
        assert_int_equal(grown[MB - 1], 3);
        shrunk = r.resize(shrunk, 3 * MB);
        assert_int_equal(shrunk[MB - 1], 2);
        memset(shrunk, 4, 3 * MB);
        r.release(shrunk);
        r.release(grown);
        char *all = r.allocate(4 * MB); // pages that were unmapped must be there again
        memset(all, 5, 4 * MB);
        shrunk = realloc(all, MB);
        r.release(shrunk);
        all = r.allocate_zeroed(4 * MB);
        for (size_t at = 0; at < 4 * MB; at += 512) {
            assert_int_equal(all[at], 0);
        }
        memset(all, 6, 4 * MB);
        r.release(all);
    }
    pw_collection_ended();
    pw_trim();
    assert_int_equal(live(), before); // those that the C library unmapped are found
    pw_switch_off();
}

static void *keep_allocating(void *argument) {
    const struct module *r = argument;
    for (int i = 0; i < 400; i++) {
        char *block = r->allocate(MB);
        CHECK(block);
        memset(block, i, MB);
        block = r->resize(block, 2 * MB);
        CHECK(block[MB - 1] == (char)i);
        r->release(block);
    }
    return NULL;
}

// --- beside threads -----------------------------------------------------------

static sem_t may_end;

static void *wait_to_end(void *unused) {
    while (sem_wait(&may_end) != 0) {}
    return unused;
}

// Does a copy of a vector that was just written share its pages?
static bool publishes(const struct module *r) {
    struct pw_statistics before = {0}, after = {0};
    void *source = r->allocate(8 * MB), *copy = r->allocate(8 * MB);
    memset(source, 1, 8 * MB);
    pw_statistics_read(&before, sizeof before);
    r->copy(copy, source, 8 * MB);
    pw_statistics_read(&after, sizeof after);
    r->release(source);
    r->release(copy);
    return after.publishes > before.publishes;
}

static bool publishes_soon(const struct module *r) {
    for (int i = 0; i < 1000; i++) { // the kernel counts a thread for a moment after its end
        if (publishes(r)) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

// Threads of a pool are told by who starts them, and threads that nobody knows stop publishing,
// whether they were there before the switch or came later.
static void beside_a_thread_that_is_not_known_nothing_is_published(void **state) {
    (void)state;
    struct module r = load("libR.so");
    void *pool = dlopen(path_to("../pools/libgomp.so"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(pool);
    int (*pool_start)(pthread_t *, void *(*)(void *)) =
        (int (*)(pthread_t *, void *(*)(void *)))dlsym(pool, "pool_start");
    pthread_t unknown, known;
    sem_init(&may_end, 0, 0);
    assert_int_equal(pthread_create(&unknown, NULL, wait_to_end, NULL), 0);
    assert_true(pw_switch_on("policy=share,modules=all,decay=0", NULL));
    assert_false(publishes(&r));
    sem_post(&may_end);
    pthread_join(unknown, NULL);
    assert_true(publishes_soon(&r));
    assert_int_equal(pool_start(&known, wait_to_end), 0);
    assert_true(publishes_soon(&r));
    assert_int_equal(pthread_create(&unknown, NULL, wait_to_end, NULL), 0);
    assert_false(publishes(&r));
    sem_post(&may_end);
    sem_post(&may_end);
    pthread_join(unknown, NULL);
    pthread_join(known, NULL);
    pw_switch_off();
}

static void it_is_switched_while_threads_work(void **state) {
    pthread_t threads[2];
    (void)state;
    struct module r = load("libR.so");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_allocating, &r), 0);
    }
    for (int i = 0; i < 200; i++) {
        assert_true(pw_switch_on(i % 2 ? "policy=share" : "policy=auto,huge=always", NULL));
        pw_switch_off();
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void children_can_switch_as_well(void **state) {
    (void)state;
    struct module r = load("libR.so");
    assert_true(pw_switch_on("policy=auto", NULL));
    char *block = r.allocate(4 * MB);
    memset(block, 1, 4 * MB);
    pid_t child = fork();
    if (child == 0) {
        CHECK(serves(&r));
        block[5] = 2;
        pw_switch_off();
        CHECK(!serves(&r));
        CHECK(pw_switch_on("policy=share", NULL));
        CHECK(serves(&r));
        r.release(block);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(block[5], 1);
    r.release(block);
    pw_switch_off();
}

// A library's handler that was registered before we were switched on runs after ours, and waits for
// a thread that needs our lock.
static struct {
    struct module r;
    pthread_t thread;
    atomic_bool waits, stop;
    char *block; // of ours, resized and freed by the thread
} late;

static void *work_while_a_fork_waits(void *unused) {
    while (!late.waits && !late.stop) {
        usleep(100);
    }
    for (int i = 0; i < 20 && late.waits; i++) {
        char *block = late.r.allocate(MB), *copy = late.r.allocate(MB);
        CHECK(block && copy);
        memset(block, i, MB);
        late.r.copy(copy, block, MB);
        CHECK(copy[MB - 1] == (char)i);
        block = late.r.resize(block, 2 * MB);
        CHECK(block && block[MB - 1] == (char)i);
        late.block = late.r.resize(late.block, MB + (size_t)i * 4096);
        CHECK(late.block && late.block[MB - 1] == 5);
        late.r.release(block);
        late.r.release(copy);
    }
    late.r.release(late.block);
    late.block = NULL;
    return unused;
}

static void wait_for_the_thread(void) {
    if (late.block) {
        late.waits = true;
        CHECK(pthread_join(late.thread, NULL) == 0);
        late.waits = false;
    }
}

static void a_late_switch_does_not_hang_forks(void **state) {
    (void)state;
    late.r = load("libR.so");
    assert_true(pw_switch_on("policy=auto,decay=0", NULL));
    uint64_t before = live();
    for (int i = 0; i < 5; i++) {
        late.block = late.r.allocate(MB);
        assert_true(pw_owns(late.block));
        memset(late.block, 5, MB);
        assert_int_equal(pthread_create(&late.thread, NULL, work_while_a_fork_waits, NULL), 0);
        alarm(60);
        pid_t child = fork();
        if (child == 0) {
            CHECK(serves(&late.r));
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    alarm(0);
    assert_true(serves(&late.r));
    assert_int_equal(live(), before); // what was freed meanwhile is released
    pw_switch_off();
}

static void large_pages_survive_forks(void **state) {
    (void)state;
    struct module r = load("libR.so");
    struct pw_block_info info;
    assert_true(pw_switch_on("policy=huge,huge=always,pages=hugetlb", NULL));
    char *block = r.allocate(8 * MB);
    assert_true(pw_block_describe(block, &info));
    memset(block, 1, 8 * MB);
    print_message("from the hugetlb pool: %s\n", info.from_hugetlb ? "yes" : "no (it is empty)");
    pid_t child = fork();
    if (child == 0) {
        memset(block, 2, 8 * MB);
        _exit(block[8 * MB - 1] == 2 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(block[8 * MB - 1], 1);
    memset(block, 3, 8 * MB);
    r.release(block);
    block = r.allocate(8 * MB);
    memset(block, 3, 8 * MB);
    assert_true(pw_collapse(block, 8 * MB) <= 8 * MB);
    r.release(block);
    pw_switch_off();
}

static void costs_of_shared_pages_are_told(void **state) {
    (void)state;
    struct module r = load("libR.so");
    struct pw_page_cost cost;
    assert_true(pw_switch_on("policy=share", NULL));
    char *one = r.allocate(4 * MB), *two = r.allocate(4 * MB);
    memset(one, 1, 4 * MB);
    r.copy(two, one, 4 * MB);
    assert_true(pw_page_cost(two, 4 * MB, &cost));
    assert_true(cost.shared > 3 * MB && cost.own < MB && cost.absent < MB);
    memset(two, 2, 2 * MB);
    assert_true(pw_page_cost(two, 4 * MB, &cost));
    assert_true(cost.shared > MB && cost.own >= 2 * MB - 4096);
    r.release(one);
    assert_true(pw_page_cost(two, 4 * MB, &cost));
    assert_true(cost.shared == 0 && cost.own > 3 * MB);
    r.release(two);
    pw_switch_off();
    assert_true(pw_page_cost(&cost, sizeof cost, &cost));
    assert_true(pw_page_cost(NULL, 0, &cost));
    assert_false(pw_page_cost((const void *)-(size_t)4096, 8192, &cost));
}

// --- what a package does to its own blocks -------------------------------------------

static void check_filled(const unsigned char *block, unsigned char with, size_t size) {
    for (size_t i = 0; i < size; i++) {
        CHECK(block[i] == with);
    }
}

static void child_reads(void *block) {
    check_filled(block, 9, 2 * MB);
}

// As a new mapping is: for its owner, and for a child of a fork.
static void next_block_is_ordinary(const struct module *r) {
    unsigned char *next = r->allocate(2 * MB);
    memset(next, 9, 2 * MB);
    assert_int_equal(run_in_child(child_reads, next), 0);
    r->release(next);
}

static void change_copied_block(const struct module *r, int which, int by, const char *name) {
    unsigned char *block = r->allocate(2 * MB), *copy = r->allocate(2 * MB);
    memset(block, 7, 2 * MB);
    r->copy(copy, block, 2 * MB);
    r->copy(copy, block, 2 * MB);
    unsigned char *part = block + MB - (uintptr_t)block % 4096;
    long result = r->call(which, by, part, 64 * KB);
    check_filled(copy, 7, 2 * MB);
    check_filled(block, 7, MB / 2);
    if (!strcmp(name, "empty")) {
        assert_int_equal(result, 0);
        check_filled(part, 0, 64 * KB);
    }
    pw_collection_ended(); // searches what is left to be searched
    r->release(block);
    check_filled(copy, 7, 2 * MB);
    r->release(copy);
}

static uint64_t altered(void) {
    struct pw_statistics block = {0};
    pw_statistics_read(&block, sizeof block);
    return block.blocks_altered;
}

static void change_fresh_block(const struct module *r, int which, int by) {
    unsigned char *block = r->allocate(2 * MB);
    memset(block, 7, 2 * MB);
    long result = r->call(which, by, block + MB - (uintptr_t)block % 4096, 64 * KB);
    (void)result;
    pw_collection_ended();
    r->release(block);
}

static void changes_by_packages_are_seen(void **state) {
    static const char *const names[] = {"read-only", "no-access", "wipe-on-fork",  "dont-fork",
                                        "empty",     "free",      "sequential",    "lock",
                                        "unmap",     "map-over",  "process-empty", "key"};
    (void)state;
    struct module packages[] = {load("libR.so"), load("lazy/libs/lazy.so"),
                                load("strict/libs/strict.so")};
    assert_true(pw_switch_on("policy=share,zero=always", NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int by = 0; by < 2; by++) {
            const struct module *package = &packages[(i + (size_t)by) % 3];
            int which = package->call_named(names[i]);
            assert_true(which >= 0);
            uint64_t before = altered();
            change_copied_block(package, which, by, names[i]);
            change_fresh_block(package, which, by);
            bool keeps = strstr(names[i], "empty") || !strcmp(names[i], "free");
            if (!keeps && altered() != before + 2) {
                fail_msg("%s, %d: %d blocks were altered", names[i], by, (int)(altered() - before));
            }
            next_block_is_ordinary(package);
            next_block_is_ordinary(package);
        }
    }
    pw_switch_off();
}

int main(int count, char **words) {
    snprintf(folder, sizeof folder, "%s", count > 1 ? words[1] : ".");
    pthread_atfork(wait_for_the_thread, NULL, NULL); // before ours
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked_before_anything_is_changed),
        cmocka_unit_test(only_modules_of_r_are_served),
        cmocka_unit_test(libraries_that_r_loads_later_are_served),
        cmocka_unit_test(read_only_tables_are_read_only_again),
        cmocka_unit_test(blocks_outlive_the_switch),
        cmocka_unit_test(others_may_release_and_resize_our_blocks),
        cmocka_unit_test(beside_a_thread_that_is_not_known_nothing_is_published),
        cmocka_unit_test(it_is_switched_while_threads_work),
        cmocka_unit_test(children_can_switch_as_well),
        cmocka_unit_test(a_late_switch_does_not_hang_forks),
        cmocka_unit_test(large_pages_survive_forks),
        cmocka_unit_test(costs_of_shared_pages_are_told),
        cmocka_unit_test(changes_by_packages_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
