// SPDX-License-Identifier: MIT
//
// The fork that is made for the sake of what libraries have registered with pthread_atfork.
#include "os/os.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int prepared, finished, signalled, found;
static bool hangs;

static void prepare(void) {
    prepared++;
}

static void parent(void) {
    finished++;
}

// As a library that waits in the child for a thread which only the parent has.
static void child(void) {
    while (hangs) {
        pause();
    }
}

static void child_has_ended(int signal) {
    int saved = errno;
    (void)signal;
    signalled++;
    found += waitpid(-1, NULL, WNOHANG) > 0;
    errno = saved;
}

static double seconds_of_a_fork(void) {
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    pw_os_fork_for_handlers();
    clock_gettime(CLOCK_MONOTONIC, &after);
    return (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
}

static int set_up(void **state) {
    (void)state;
    static bool registered;
    if (!registered) {
        assert_int_equal(pthread_atfork(prepare, parent, child), 0);
        registered = true;
    }
    prepared = finished = signalled = found = 0;
    hangs = false;
    return 0;
}

static void handlers_run_and_no_child_is_left(void **state) {
    (void)state;
    errno = ENOTTY;
    pw_os_fork_for_handlers();
    assert_int_equal(errno, ENOTTY);
    assert_int_equal(prepared, 1);
    assert_int_equal(finished, 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void the_programs_handler_finds_no_child(void **state) {
    (void)state;
    struct sigaction mine = {.sa_handler = child_has_ended}, before;
    sigaction(SIGCHLD, &mine, &before);
    pw_os_fork_for_handlers();
    sigaction(SIGCHLD, &before, NULL);
    assert_int_equal(signalled, 1);
    assert_int_equal(found, 0);
}

static void a_child_that_hangs_is_not_waited_for(void **state) {
    (void)state;
    hangs = true;
    double seconds = seconds_of_a_fork();
    assert_true(seconds > 1 && seconds < 60);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void where_the_kernel_reaps_it_ends_too(void **state) {
    (void)state;
    struct sigaction mine = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGCHLD, &mine, &before);
    double seconds = seconds_of_a_fork();
    sigaction(SIGCHLD, &before, NULL);
    assert_int_equal(prepared, 1);
    assert_true(seconds < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(handlers_run_and_no_child_is_left, set_up),
        cmocka_unit_test_setup(the_programs_handler_finds_no_child, set_up),
        cmocka_unit_test_setup(a_child_that_hangs_is_not_waited_for, set_up),
        cmocka_unit_test_setup(where_the_kernel_reaps_it_ends_too, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
