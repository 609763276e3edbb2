// SPDX-License-Identifier: MIT
//
// Who else could write to the program's memory: threads of every kind, pools with and without work,
// and what writes without a thread.
//     test_quiet FOLDER-OF-THE-POOLS
#include "block/copying.h"
#include "process/lock.h"
#include "process/pool_threads.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/runtime.h"
#include "support.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <threads.h>

static const char *folder;

struct pool {
    void *library;
    const void *site;
    int *level, *teams;
};

static struct pool load(const char *name) {
    char path[500];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return (struct pool){library, dlsym(library, "omp_get_level"), dlsym(library, "level"),
                         dlsym(library, "teams")};
}

static bool is_quiet_at(const void *site) {
    struct pw_caller caller = pw_caller_at(&pw_process, site);
    pw_quiet_look(&caller);
    return pw_is_quiet(&caller);
}

static bool is_quiet(void) {
    return is_quiet_at(__builtin_return_address(0));
}

// --- a thread that waits, however it was made --------------------------------

static sem_t began, may_end;

static void *wait_to_end(void *unused) {
    sem_post(&began);
    while (sem_wait(&may_end) != 0) {}
    return unused;
}

static pthread_t start(const void *site) {
    pthread_t thread;
    assert_int_equal(pw_quiet_create(pthread_create, &thread, NULL, wait_to_end, NULL, site), 0);
    sem_wait(&began);
    return thread;
}

// The kernel counts a thread for a moment after it was joined.
static void wait_for_threads(unsigned left) {
    for (int i = 0; i < 5000 && pw_os_thread_count() > left; i++) {
        usleep(1000);
    }
}

static void end(pthread_t thread) {
    unsigned threads = pw_os_thread_count();
    sem_post(&may_end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    wait_for_threads(threads - 1);
}

static void alone_all_is_quiet(void **state) {
    (void)state;
    assert_true(is_quiet());
}

static void a_thread_of_the_programs_may_write(void **state) {
    (void)state;
    pthread_t thread = start(__builtin_return_address(0));
    assert_false(is_quiet());
    end(thread);
    assert_true(is_quiet());
}

static int wait_as_int(void *unused) {
    wait_to_end(unused);
    return 0;
}

static void so_may_one_that_came_another_way(void **state) {
    (void)state;
    thrd_t thread;
    assert_int_equal(thrd_create(&thread, wait_as_int, NULL), thrd_success);
    sem_wait(&began);
    assert_false(is_quiet());
    sem_post(&may_end);
    thrd_join(thread, NULL);
    wait_for_threads(1);
}

static int wait_for_a_flag(void *flag) {
    while (!__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    return 0;
}

static void so_may_one_made_by_clone(void **state) {
    (void)state;
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
    static char stack[65536] __attribute__((aligned(16)));
    static int flag;
    assert_true(clone(wait_for_a_flag, stack + sizeof stack, flags, &flag) > 0);
    assert_false(is_quiet());
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    wait_for_threads(1);
    assert_true(is_quiet());
}

// --- pools -------------------------------------------------------------------

static void a_blas_is_quiet_outside_of_itself(void **state) {
    (void)state;
    struct pool blas = load("libopenblas.so");
    pthread_t thread = start(blas.site);
    assert_true(is_quiet());
    assert_false(is_quiet_at(blas.site));
    end(thread);
}

static void an_openmp_pool_is_quiet_outside_of_its_region(void **state) {
    (void)state;
    struct pool openmp = load("libgomp.so");
    pw_process.serves_r = true;
    pthread_t thread = start(openmp.site);
    assert_true(is_quiet());
    *openmp.level = 1;
    assert_false(is_quiet());
    *openmp.level = 0;
    *openmp.teams = 2;
    assert_false(is_quiet());
    *openmp.teams = 1;
    assert_true(is_quiet());
    end(thread);
    pw_process.serves_r = false;
}

static void another_librarys_pool_is_not_known(void **state) {
    (void)state;
    struct pool other = load("libother.so");
    pthread_t thread = start(other.site);
    assert_false(is_quiet());
    end(thread);
}

// Both kinds begin in the same function.
static void of_laters_threads_only_timers_are_known(void **state) {
    (void)state;
    struct pool later = load("later/libs/later.so");
    struct {
        const void *function, *argument;
    } what[] = {{dlsym(later.library, "_ZN5Timer12bg_main_funcEPv"), NULL},
                {dlsym(later.library, "wait_for_files"), NULL},
                {NULL, NULL}};
    assert_true(what[0].function && what[1].function);
    for (size_t i = 0; i <= sizeof what / sizeof *what; i++) {
        pthread_t thread;
        void *argument = i < sizeof what / sizeof *what ? &what[i] : NULL;
        assert_int_equal(
            pw_quiet_create(pthread_create, &thread, NULL, wait_to_end, argument, later.site), 0);
        sem_wait(&began);
        assert_int_equal(is_quiet(), i == 0);
        end(thread);
    }
}

// One that is known never stands for one that is not.
static void a_pool_hides_no_other_thread(void **state) {
    (void)state;
    struct pool blas = load("libopenblas.so");
    pthread_t known = start(blas.site), unknown = start(__builtin_return_address(0));
    assert_false(is_quiet());
    sem_post(&may_end);
    sem_post(&may_end);
    pthread_join(known, NULL);
    assert_int_equal(pthread_join(unknown, NULL), 0);
    wait_for_threads(1);
    unknown = start(__builtin_return_address(0));
    assert_false(is_quiet());
    end(unknown);
}

static volatile bool was_quiet;

static void *ask(void *unused) {
    was_quiet = is_quiet();
    return unused;
}

static void nor_does_the_one_that_asks(void **state) {
    (void)state;
    static const char *const pools[] = {"libopenblas.so", "libgomp.so"};
    pw_process.serves_r = true;
    for (int i = 0; i < 2; i++) {
        const void *site = load(pools[i]).site;
        pthread_t thread;
        was_quiet = true;
        assert_int_equal(pw_quiet_create(pthread_create, &thread, NULL, ask, NULL, site), 0);
        pthread_join(thread, NULL);
        wait_for_threads(1);
        assert_false(was_quiet);
    }
    pw_process.serves_r = false;
}

static void ask_in_handler(int signal) {
    (void)signal;
    was_quiet = is_quiet();
}

// It may have interrupted the call that gave the pool its work.
static void in_a_handler_a_blas_may_be_at_work(void **state) {
    (void)state;
    struct pool blas = load("libopenblas.so");
    pthread_t thread = start(blas.site);
    signal(SIGUSR1, ask_in_handler);
    was_quiet = true;
    raise(SIGUSR1);
    assert_false(was_quiet);
    assert_true(is_quiet());
    end(thread);
}

static void *see_mask(void *seen) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(bool *)seen =
        sigismember(&mask, SIGINT) && sigismember(&mask, SIGPROF) && !sigismember(&mask, SIGSEGV);
    return NULL;
}

static void a_pools_threads_run_no_handlers(void **state) {
    (void)state;
    bool blocked = false;
    pthread_t thread;
    const void *site = load("libopenblas.so").site;
    assert_int_equal(pw_quiet_create(pthread_create, &thread, NULL, see_mask, &blocked, site), 0);
    pthread_join(thread, NULL);
    assert_true(blocked);
    assert_int_equal(pw_quiet_create(pthread_create, &thread, NULL, see_mask, &blocked,
                                     __builtin_return_address(0)),
                     0);
    pthread_join(thread, NULL);
    wait_for_threads(1);
    assert_false(blocked);
}

// --- without a thread --------------------------------------------------------

static void in_a_child_of_vfork_nothing_is_known(void **state) {
    (void)state;
    static volatile bool quiet = true;
    pid_t child = vfork();
    if (child == 0) {
        quiet = is_quiet();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_false(quiet);
}

static void in_a_child_of_fork_it_is(void *unused) {
    (void)unused;
    CHECK(pw_process_enter());
    pw_process_leave();
    CHECK(is_quiet());
}

static void in_a_child_of_fork_all_is_quiet(void **state) {
    (void)state;
    assert_int_equal(run_in_child(in_a_child_of_fork_it_is, NULL), 0);
}

static void load_a_writer(void *name) {
    CHECK(is_quiet());
    CHECK(load(name).library);
    CHECK(!is_quiet());
}

// The third as wheels call theirs; by the fourth a process of the same machine may write.
static void who_may_have_others_write_is_not(void **state) {
    (void)state;
    static char *const names[] = {"liburing.so", "liburing-ffi.so", "libaio-2e0a9f1c.so",
                                  "libmpi.so",   "libOpenCL.so",    "librte_eal.so",
                                  "libxdp.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(run_in_child(load_a_writer, names[i]), 0);
    }
}

// --- children of forks beside others ----------------------------------------------

static int hold_the_loader(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    wait_to_end(NULL);
    return 1;
}

static void *look_through_modules(void *unused) {
    dl_iterate_phdr(hold_the_loader, NULL);
    return unused;
}

// The wait status; a child that hangs is killed. (It holds its signals back.)
static int status_of(pid_t child) {
    int status = -1;
    for (int i = 0; i < 20000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        usleep(1000);
    }
    if (status == -1) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return status;
}

// A thread that the child does not have was in the dynamic loader.
static void a_child_does_not_wait_for_the_loader(void **state) {
    (void)state;
    const size_t size = 4 * MB;
    char *source = pw_allocate(size), *copy = pw_allocate(size);
    memset(source, 3, size);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_through_modules, NULL), 0);
    sem_wait(&began);
    for (int raw = 0; raw < 2; raw++) {
        pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (child == 0) {
            pw_copy(copy, source, size);
            _exit(memcmp(copy, source, size) != 0);
        }
        assert_int_equal(status_of(child), 0);
    }
    end(thread);
    pw_free(source);
    pw_free(copy);
}

// A thread that counts itself meanwhile is neither there nor gone.
static void while_counts_change_nothing_is_known(void **state) {
    (void)state;
    pw_process.quiet.changes++;
    assert_false(is_quiet());
    pw_process.quiet.changes++;
    assert_true(is_quiet());
}

// --- what follows ------------------------------------------------------------

// A copy while another thread lives neither publishes nor takes its source apart. Nor is it
// attached to a source that is published already: a device could know its pages.
static void beside_a_thread_nothing_is_shared(void **state) {
    (void)state;
    const size_t size = (size_t)8 << 20;
    char *source = pw_allocate(size), *first = pw_allocate(size), *second = pw_allocate(size);
    memset(source, 1, size);
    pthread_t thread = start(__builtin_return_address(0));
    uint64_t publishes = PW_READ(&pw_process.stats, publishes);
    uint64_t refused = PW_READ(&pw_process.stats, fallback_threads);
    pw_copy(first, source, size);
    assert_int_equal(PW_READ(&pw_process.stats, publishes), publishes);
    assert_true(PW_READ(&pw_process.stats, fallback_threads) > refused);
    end(thread);
    pw_copy(first, source, size);
    assert_int_equal(PW_READ(&pw_process.stats, publishes), publishes + 1);
    thread = start(__builtin_return_address(0));
    uint64_t shared = PW_READ(&pw_process.stats, copies_shared);
    pw_copy(second, source, size);
    assert_int_equal(PW_READ(&pw_process.stats, copies_shared), shared);
    assert_memory_equal(second, source, size);
    end(thread);
    pw_copy(second, source, size);
    assert_int_equal(PW_READ(&pw_process.stats, copies_shared), shared + 1);
    assert_memory_equal(second, source, size);
    pw_free(source);
    pw_free(first);
    pw_free(second);
}

int main(int count, char **arguments) {
#ifdef __SANITIZE_THREAD__
    return SKIPPED; // TSan has a thread of its own
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_all_is_quiet),
        cmocka_unit_test(a_thread_of_the_programs_may_write),
        cmocka_unit_test(so_may_one_that_came_another_way),
        cmocka_unit_test(so_may_one_made_by_clone),
        cmocka_unit_test(a_blas_is_quiet_outside_of_itself),
        cmocka_unit_test(an_openmp_pool_is_quiet_outside_of_its_region),
        cmocka_unit_test(another_librarys_pool_is_not_known),
        cmocka_unit_test(of_laters_threads_only_timers_are_known),
        cmocka_unit_test(a_pool_hides_no_other_thread),
        cmocka_unit_test(nor_does_the_one_that_asks),
        cmocka_unit_test(in_a_handler_a_blas_may_be_at_work),
        cmocka_unit_test(a_pools_threads_run_no_handlers),
        cmocka_unit_test(in_a_child_of_vfork_nothing_is_known),
        cmocka_unit_test(in_a_child_of_fork_all_is_quiet),
        cmocka_unit_test(who_may_have_others_write_is_not),
        cmocka_unit_test(a_child_does_not_wait_for_the_loader),
        cmocka_unit_test(while_counts_change_nothing_is_known),
        cmocka_unit_test(beside_a_thread_nothing_is_shared),
    };
    folder = count > 1 ? arguments[1] : ".";
    alarm(60); // a test that failed leaves threads, for which the next ones would wait
    sem_init(&began, 0, 0);
    sem_init(&may_end, 0, 0);
    pw_start("policy=share,modules=all,decay=0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
