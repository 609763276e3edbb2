// SPDX-License-Identifier: MIT
//
// Copies by mmapcopy(2): made by the kernel where it has the call, else by a double of it
// (mmapcopy_double.c). Each test is a process of its own.
#include "entry/switch.h"
#include "process/state.h"
#include "support.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SIZE  ((size_t)4 << 20)
#define PAGES (SIZE / PW_PAGE)
#define ALL   "modules=all,decay=0,collect=burst"

static bool kernel_has_it;

// --- what is tested -----------------------------------------------------------

struct body {
    const char *kernel; // for the double; NULL: the real one, or `emulated` where it lacks the call
    void (*run)(void);
};

static void enter(void *argument) {
    const struct body *body = argument;
    alarm(100);
    if (body->kernel) {
        setenv("PAGEWISE_TEST_MMAPCOPY", body->kernel, 1);
    } else if (!kernel_has_it) {
        setenv("PAGEWISE_TEST_MMAPCOPY", "emulated", 1);
    }
    body->run();
}

static void in_process(const char *kernel, void (*run)(void)) {
    struct body body = {kernel, run};
    assert_int_equal(run_in_child(enter, &body), 0);
}

static struct pw_statistics statistics(void) {
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    return now;
}

struct vector {
    unsigned char *data, *shadow;
};

static struct random noise = {.state = 12345};

static struct vector vector_new(void) {
    struct vector vector = {pw_allocate(SIZE), malloc(SIZE)};
    CHECK(vector.data && vector.shadow && pw_owns(vector.data));
    random_fill(&noise, vector.shadow, SIZE);
    memcpy(vector.data, vector.shadow, SIZE);
    return vector;
}

static void verify(const struct vector *vector) {
    CHECK(memcmp(vector->data, vector->shadow, SIZE) == 0);
}

static void copy_part(struct vector *to, size_t to_at, const struct vector *from, size_t from_at,
                      size_t size) {
    pw_copy(to->data + to_at, from->data + from_at, size);
    memcpy(to->shadow + to_at, from->shadow + from_at, size);
    verify(to);
    verify(from);
}

static void copy_into(struct vector *to, const struct vector *from) {
    copy_part(to, 0, from, 0, SIZE);
}

static struct vector copy_of(const struct vector *from) {
    struct vector copy = {pw_allocate(SIZE), malloc(SIZE)};
    CHECK(copy.data && copy.shadow);
    copy_into(&copy, from);
    return copy;
}

static void write_at(struct vector *vector, size_t at, size_t size) {
    random_fill(&noise, vector->shadow + at, size);
    memcpy(vector->data + at, vector->shadow + at, size);
}

static void vector_free(struct vector *vector) {
    verify(vector);
    pw_free(vector->data);
    free(vector->shadow);
    *vector = (struct vector){0};
}

static unsigned count_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory)) {
        count++;
    }
    closedir(directory);
    return count;
}

// --- asking the kernel --------------------------------------------------------

static void finds_it(void) {
    errno = 77;
    CHECK(pw_os_has_mmapcopy());
    CHECK(errno == 77);
    // What it tried it on is gone.
    CHECK(!pw_os_is_mapped((void *)0x5a5a5a5a5000, PW_PAGE));
}

static void finds_nothing(void) {
    errno = 77;
    CHECK(!pw_os_has_mmapcopy());
    CHECK(errno == 77);
    CHECK(!pw_os_is_mapped((void *)0x5a5a5a5a5000, PW_PAGE));
}

static void a_kernel_with_the_call_is_found(void **state) {
    (void)state;
    in_process(NULL, finds_it);
    in_process("emulated", finds_it);
}

static void a_kernel_without_it_is_told_apart(void **state) {
    (void)state;
    in_process("absent", finds_nothing);
}

static void another_call_of_the_same_number_fools_nobody(void **state) {
    (void)state;
    static const char *const kernels[] = {"success", "refuses", "deep", "aliases"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        in_process(kernels[i], finds_nothing);
    }
}

static void the_place_to_try_it_may_be_taken(void) {
    char *place = mmap((void *)0x5a5a5a5a5000, PW_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(place != MAP_FAILED);
    strcpy(place, "the program's");
    CHECK(!pw_os_has_mmapcopy());
    CHECK(!strcmp(place, "the program's"));
}

static void nothing_of_the_programs_is_touched(void **state) {
    (void)state;
    in_process(NULL, the_place_to_try_it_may_be_taken);
}

static void asks_under_a_filter_that_kills(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 600, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    unsetenv("PAGEWISE_TEST_MMAPCOPY");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        CHECK(errno == EINVAL); // a kernel without filters, as the virtual machine's
        return;
    }
    finds_nothing();
    CHECK(pw_start(ALL ",seccomp=ignore"));
    struct vector one = vector_new(), other = copy_of(&one);
    write_at(&other, 0, SIZE);
    verify(&one);
    CHECK(statistics().publishes == 1);
}

static void under_a_filter_it_is_not_asked(void **state) {
    (void)state;
    in_process(NULL, asks_under_a_filter_that_kills);
}

// --- copies -------------------------------------------------------------------

static void shares_without_a_snapshot(void) {
    CHECK(pw_start(ALL));
    CHECK(statistics().mmapcopy_used == 1);
    struct vector one = vector_new();
    unsigned descriptors = count_descriptors();
    struct vector other = copy_of(&one);
    struct pw_statistics now = statistics();
    CHECK(now.copies_shared == 1 && now.copies_by_mmapcopy == 1);
    CHECK(now.shared_copy_bytes >= SIZE - 2 * PW_PAGE);
    CHECK(now.publishes == 0 && now.snapshot_bytes == 0 && now.arenas_live == 0);
    CHECK(count_descriptors() == descriptors);
    write_at(&one, 5 * PW_PAGE + 17, 40);
    write_at(&other, 5 * PW_PAGE + 4000, 200);
    write_at(&other, SIZE - 1, 1);
    verify(&one);
    verify(&other);
    vector_free(&one);
    vector_free(&other);
    CHECK(statistics().live_bytes == 0);
}

static void a_copy_needs_no_file(void **state) {
    (void)state;
    in_process(NULL, shares_without_a_snapshot);
}

static void publishes(const char *options, bool used) {
    CHECK(pw_start(options));
    struct vector one = vector_new(), other = copy_of(&one);
    struct pw_statistics now = statistics();
    CHECK(now.copies_shared == 1 && now.copies_by_mmapcopy == 0 && now.publishes == 1);
    CHECK(now.mmapcopy_used == used && now.fallback_mmapcopy == 0);
    vector_free(&one);
    vector_free(&other);
}

static void publishes_when_switched_off(void) {
    publishes(ALL ",mmapcopy=off", false);
}

static void publishes_by_default(void) {
    publishes(ALL, false);
}

static void otherwise_snapshots_serve(void **state) {
    (void)state;
    in_process(NULL, publishes_when_switched_off);
    in_process("absent", publishes_by_default);
}

static void goes_on_when_denied(void) {
    CHECK(pw_start(ALL ",share=always"));
    struct vector one = vector_new(), copies[8];
    for (int i = 0; i < 8; i++) {
        copies[i] = copy_of(i ? &copies[i - 1] : &one);
        write_at(&copies[i], (size_t)i * 10 * PW_PAGE, 100);
    }
    struct pw_statistics now = statistics();
    CHECK(now.copies_by_mmapcopy > 0 && now.fallback_mmapcopy == 1);
    CHECK(now.mmapcopy_used == 0 && now.publishes > 0);
    verify(&one);
    for (int i = 0; i < 8; i++) {
        vector_free(&copies[i]);
    }
    vector_free(&one);
    CHECK(statistics().snapshots_live == 0 && statistics().shared_bytes == 0);
}

static void a_filter_that_comes_later_leaves_snapshots(void **state) {
    (void)state;
    in_process("denied", goes_on_when_denied);
}

static void fills_holes(void) {
    CHECK(pw_start(ALL ",share=always"));
    struct vector one = vector_new(), copies[8];
    for (int i = 0; i < 8; i++) {
        copies[i] = copy_of(&one);
        write_at(&copies[i], 0, SIZE / 2);
    }
    CHECK(statistics().fallback_mmapcopy > 1 && statistics().copies_by_mmapcopy > 1);
    CHECK(statistics().copies_plain_fallback == statistics().fallback_mmapcopy);
    for (int i = 0; i < 8; i++) {
        vector_free(&copies[i]);
    }
    vector_free(&one);
}

static void a_failed_copy_leaves_no_hole(void **state) {
    (void)state;
    in_process("hole", fills_holes);
}

static void copies_parts(void) {
    CHECK(pw_start(ALL ",share=always"));
    struct vector one = vector_new(), two = vector_new(), three = vector_new();
    copy_part(&two, 100 * PW_PAGE, &one, 7 * PW_PAGE, 300 * PW_PAGE + 100);
    copy_part(&three, 10 * PW_PAGE, &two, 50 * PW_PAGE, 500 * PW_PAGE); // partly shared
    copy_part(&two, 0, &three, 0, 200 * PW_PAGE);                       // over a copy
    copy_into(&one, &two);                                              // over a source
    write_at(&two, 60 * PW_PAGE, 100 * PW_PAGE);
    verify(&one);
    verify(&three);
    CHECK(statistics().copies_by_mmapcopy == 4);
    vector_free(&two);
    verify(&one);
    vector_free(&one);
    vector_free(&three);
}

static void any_pages_may_be_copied_anywhere(void **state) {
    (void)state;
    in_process(NULL, copies_parts);
}

static void makes_a_chain(void) {
    CHECK(pw_start(ALL ",share=always"));
    struct vector last = vector_new();
    for (size_t i = 0; i < 300; i++) {
        struct vector next = copy_of(&last);
        write_at(&next, random_below(&noise, SIZE - 64), 64);
        vector_free(&last);
        last = next;
    }
    CHECK(statistics().copies_by_mmapcopy == 300);
    vector_free(&last);
}

static void versions_of_versions_stay_apart(void **state) {
    (void)state;
    in_process(NULL, makes_a_chain);
}

// --- afterwards ---------------------------------------------------------------

static void frees_cold(void) {
    CHECK(pw_start(ALL));
    struct vector one = vector_new(), other = copy_of(&one);
    uint64_t warm = statistics().cached_bytes;
    vector_free(&one);
    vector_free(&other);
    // Written, their pages would cost memory that the pool's rule has not counted.
    CHECK(statistics().cached_bytes == warm);
    one = vector_new();
    vector_free(&one);
    CHECK(statistics().cached_bytes >= warm + SIZE);
}

static void pages_of_a_freed_copy_are_not_warm(void **state) {
    (void)state;
    in_process(NULL, frees_cold);
}

static void zeroes(void) {
    CHECK(pw_start(ALL));
    struct vector one = vector_new(), other = copy_of(&one);
    uint64_t lazy = statistics().lazy_zero_bytes;
    pw_zero(other.data, SIZE);
    memset(other.shadow, 0, SIZE);
    verify(&one);
    verify(&other);
    CHECK(statistics().lazy_zero_bytes >= lazy + SIZE - 2 * PW_PAGE);
    write_at(&other, 3 * PW_PAGE, 5 * PW_PAGE);
    copy_into(&one, &other); // absent pages are zeros in the copy as well
    write_at(&one, 0, 100);
    verify(&other);
    vector_free(&one);
    vector_free(&other);
}

static void overwriting_a_copy_with_zeros_gives_its_pages_back(void **state) {
    (void)state;
    in_process(NULL, zeroes);
}

static void collects(void) {
    CHECK(pw_start(ALL ",zero=always"));
    struct vector one = vector_new();
    memset(one.data + 100 * PW_PAGE, 0, 500 * PW_PAGE);
    memset(one.shadow + 100 * PW_PAGE, 0, 500 * PW_PAGE);
    struct vector other = copy_of(&one);
    pw_collection_ended(); // some may have been given back before, at a new peak
    CHECK(statistics().zero_reclaimed_bytes >= 400 * PW_PAGE);
    verify(&one);
    verify(&other);
    struct vector third = copy_of(&other);
    write_at(&third, 90 * PW_PAGE, 100 * PW_PAGE);
    verify(&other);
    vector_free(&one);
    vector_free(&other);
    vector_free(&third);
}

static void zero_pages_of_copies_are_given_back(void **state) {
    (void)state;
    in_process(NULL, collects);
}

static void resizes(void) {
    CHECK(pw_start(ALL));
    struct vector one = vector_new(), other = copy_of(&one);
    one.data = pw_resize(one.data, 2 * SIZE);
    CHECK(one.data);
    memset(one.data + SIZE, 5, SIZE);
    verify(&one);
    verify(&other);
    other.data = pw_resize(other.data, 3 * SIZE);
    CHECK(other.data);
    memset(other.data + SIZE, 6, 2 * SIZE);
    verify(&other);
    one.data = pw_resize(one.data, SIZE);
    vector_free(&one);
    vector_free(&other);
}

static void both_sides_can_be_resized(void **state) {
    (void)state;
    in_process(NULL, resizes);
}

static struct vector inherited[2];

static void works_in_the_child(void *unused) {
    (void)unused;
    verify(&inherited[0]);
    verify(&inherited[1]);
    CHECK(statistics().mmapcopy_used == 1);
    struct vector copy = copy_of(&inherited[1]);
    write_at(&inherited[0], 0, SIZE);
    write_at(&copy, SIZE / 2, 100);
    CHECK(statistics().copies_by_mmapcopy == 1);
    vector_free(&inherited[0]);
    vector_free(&inherited[1]);
    vector_free(&copy);
}

static void forks(void) {
    CHECK(pw_start(ALL ",share=always"));
    inherited[0] = vector_new();
    inherited[1] = copy_of(&inherited[0]);
    CHECK(run_in_child(works_in_the_child, NULL) == 0);
    verify(&inherited[0]);
    verify(&inherited[1]);
    vector_free(&inherited[0]);
    vector_free(&inherited[1]);
}

static void children_have_copies_of_their_own(void **state) {
    (void)state;
    in_process(NULL, forks);
}

#define ALWAYS ALL ",share=always" // whatever became of earlier copies

static void switches(void) {
    CHECK(pw_start(ALWAYS));
    struct vector one = vector_new(), two = copy_of(&one);
    CHECK(pw_heap_switch_on(ALWAYS ",mmapcopy=off") == NULL);
    CHECK(statistics().mmapcopy_used == 0);
    struct vector three = copy_of(&two); // publishes what the call had copied
    CHECK(statistics().publishes == 1);
    CHECK(pw_heap_switch_on(ALWAYS) == NULL);
    struct vector four = copy_of(&two); // two is on a snapshot: that is shared
    struct vector five = copy_of(&one);
    CHECK(statistics().mmapcopy_used == 1 && statistics().copies_by_mmapcopy == 2);
    CHECK(statistics().publishes == 1);
    write_at(&two, 0, SIZE / 2);
    verify(&one);
    verify(&three);
    vector_free(&one);
    vector_free(&two);
    vector_free(&three);
    vector_free(&four);
    vector_free(&five);
    CHECK(statistics().shared_bytes == 0 && statistics().snapshots_live == 0);
    CHECK(pw_process.share.shared_extents == 0);
}

static void it_can_be_switched_off_and_on_in_between(void **state) {
    (void)state;
    in_process(NULL, switches);
}

// --- what is learnt -----------------------------------------------------------

static void overwrites_every_copy(void) {
    CHECK(pw_start(ALL));
    struct vector one = vector_new();
    for (int i = 0; i < 20; i++) {
        struct vector copy = copy_of(&one);
        write_at(&copy, 0, SIZE);
        verify(&one);
        vector_free(&copy);
    }
    struct pw_statistics now = statistics();
    CHECK(now.predictor_misses > 0 && now.private_copy_bytes >= SIZE - 2 * PW_PAGE);
    CHECK(now.copies_plain_predicted > now.copies_by_mmapcopy);
    vector_free(&one);
}

static void copies_that_are_overwritten_stop_being_shared(void **state) {
    (void)state;
    in_process(NULL, overwrites_every_copy);
}

// However fast the machine is: by default, copies that live briefly are not shared.
static void keeps_every_copy(void) {
    CHECK(pw_start(ALL ",brief=0"));
    struct vector one = vector_new();
    for (int i = 0; i < 20; i++) {
        struct vector copy = copy_of(&one);
        write_at(&copy, (size_t)i * 3 * PW_PAGE, 100);
        vector_free(&copy);
    }
    struct pw_statistics now = statistics();
    CHECK_EQUAL(now.copies_plain_predicted, 0);
    CHECK_EQUAL(now.copies_plain_brief, 0);
    CHECK_EQUAL(now.predictor_misses, 0);
    CHECK_EQUAL(now.predictor_hits, 20);
    CHECK_EQUAL(now.copies_by_mmapcopy, 20);
    vector_free(&one);
}

static void counts_pages(void) {
    CHECK(pw_start(ALL ",huge=off"));
    struct vector one = vector_new(), other = copy_of(&one);
    struct pw_page_cost cost;
    CHECK(pw_page_cost(other.data + PW_PAGE, SIZE - 3 * PW_PAGE, &cost));
    CHECK(cost.shared >= SIZE - 4 * PW_PAGE && cost.own <= PW_PAGE);
    write_at(&other, 100 * PW_PAGE, 1);
    write_at(&one, 200 * PW_PAGE, 1);
    struct pw_page_cost later;
    CHECK(pw_page_cost(other.data + PW_PAGE, SIZE - 3 * PW_PAGE, &later));
    CHECK(later.own == cost.own + 2 * PW_PAGE);
    vector_free(&one);
    vector_free(&other);
}

// The double copies, so that only a kernel can show these.
static void on_a_kernel_with_the_call_pages_are_shared(void **state) {
    (void)state;
    if (!kernel_has_it) {
        skip();
    }
    in_process(NULL, counts_pages);
    in_process(NULL, keeps_every_copy);
}

int main(void) {
    kernel_has_it = pw_os_has_mmapcopy();
    printf("this kernel %s mmapcopy(2)\n", kernel_has_it ? "has" : "does not have");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_with_the_call_is_found),
        cmocka_unit_test(a_kernel_without_it_is_told_apart),
        cmocka_unit_test(another_call_of_the_same_number_fools_nobody),
        cmocka_unit_test(nothing_of_the_programs_is_touched),
        cmocka_unit_test(under_a_filter_it_is_not_asked),
        cmocka_unit_test(a_copy_needs_no_file),
        cmocka_unit_test(otherwise_snapshots_serve),
        cmocka_unit_test(a_filter_that_comes_later_leaves_snapshots),
        cmocka_unit_test(a_failed_copy_leaves_no_hole),
        cmocka_unit_test(any_pages_may_be_copied_anywhere),
        cmocka_unit_test(versions_of_versions_stay_apart),
        cmocka_unit_test(pages_of_a_freed_copy_are_not_warm),
        cmocka_unit_test(overwriting_a_copy_with_zeros_gives_its_pages_back),
        cmocka_unit_test(zero_pages_of_copies_are_given_back),
        cmocka_unit_test(both_sides_can_be_resized),
        cmocka_unit_test(children_have_copies_of_their_own),
        cmocka_unit_test(it_can_be_switched_off_and_on_in_between),
        cmocka_unit_test(copies_that_are_overwritten_stop_being_shared),
        cmocka_unit_test(on_a_kernel_with_the_call_pages_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
