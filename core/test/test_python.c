// SPDX-License-Identifier: MIT
//
// What is known of Python: which modules' copies share pages, and beside whom.
#include "block/block.h"
#include "block/copying.h"
#include "entry/switch.h"
#include "process/pools.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/python/python.h"
#include "runtime/runtime.h"
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>

// Found by name, as libpython's: this program is Python.
__attribute__((visibility("default"))) int Py_IsInitialized(void) {
    return 1;
}

#define SITE_PACKAGES "/home/me/venv/lib/python3.11/site-packages"
#define OF_PYTHON     ".cpython-311-x86_64-linux-gnu.so"

static void arrays_are_numpys_and_the_interpreters(void **state) {
    (void)state;
    static const char *const paths[] = {
        SITE_PACKAGES "/numpy/_core/_multiarray_umath" OF_PYTHON,
        "/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath" OF_PYTHON,
        "/opt/lambda/numpy/_core/_multiarray_umath" OF_PYTHON,
        "/usr/bin/python3.11",
        "/home/me/venv/bin/python",
        "/opt/lib/libpython3.12.so.1.0",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(pw_module_of_path(paths[i]), PW_MODULE_RUNTIME);
    }
}

static void packages_that_work_on_arrays_are_known(void **state) {
    (void)state;
    static const char *const paths[] = {
        SITE_PACKAGES "/numpy/linalg/_umath_linalg" OF_PYTHON,
        SITE_PACKAGES "/pandas/_libs/algos" OF_PYTHON,
        SITE_PACKAGES "/scipy/sparse/_sparsetools" OF_PYTHON,
        SITE_PACKAGES "/sklearn/tree/_tree" OF_PYTHON,
        "/usr/lib/python3/dist-packages/pandas/_libs/lib" OF_PYTHON,
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(pw_module_of_path(paths[i]), PW_MODULE_EXTENSION);
    }
}

// What pins memory, has an allocator of its own, or only lies in a folder of such a name.
static void others_are_not(void **state) {
    (void)state;
    static const char *const paths[] = {
        SITE_PACKAGES "/torch/lib/libtorch_cpu.so",
        SITE_PACKAGES "/cupy/_core/core" OF_PYTHON,
        SITE_PACKAGES "/pyarrow/libarrow.so.2400",
        SITE_PACKAGES "/polars/polars.abi3.so",
        SITE_PACKAGES "/pandas_gpu/engine" OF_PYTHON,
        SITE_PACKAGES "/numpy.libs/libscipy_openblas64_-32a4b2a6.so",
        "/home/me/numpy/pins" OF_PYTHON,
        "/venvs/numpy/lib/python3.11/site-packages/torch/_C" OF_PYTHON,
        "/a/site-packages/numpy/lib/python3.11/site-packages/torch/_C" OF_PYTHON,
        "/usr/bin/pythonista",
        "/usr/bin/perl",
        "",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (pw_module_of_path(paths[i]) != PW_MODULE_OTHER) {
            fail_msg("known: %s", paths[i]);
        }
    }
}

static void the_interpreter_loads_modules(void **state) {
    (void)state;
    assert_true(pw_module_loads("/usr/bin/python3.11"));
    assert_true(pw_module_loads("/opt/lib/libpython3.12.so.1.0"));
    assert_true(pw_module_loads("/usr/lib/R/lib/libR.so"));
    assert_false(pw_module_loads(SITE_PACKAGES "/numpy/_core/_multiarray_umath" OF_PYTHON));
    assert_false(pw_module_loads("/usr/bin/perl"));
}

static void the_wheels_openblas_is_a_pool(void **state) {
    (void)state;
    assert_int_equal(pw_pool_of_path("/x/numpy.libs/libscipy_openblas64_-32a4b2a6.so"),
                     PW_POOL_BLAS);
    assert_int_equal(pw_pool_of_path("/x/numpy.libs/libopenblas64_p-r0-0cf96a72.3.23.dev.so"),
                     PW_POOL_BLAS);
    assert_int_equal(pw_pool_of_path("/x/scikit_learn.libs/libgomp-e985bcbb.so.1.0.0"),
                     PW_POOL_OPENMP);
    assert_int_equal(pw_pool_of_path("/x/libarrow.so.2400"), PW_POOL_NONE);
}

static void a_program_with_an_interpreter_is_python(void **state) {
    (void)state;
    pw_serve_runtime(true);
    assert_true(pw_process.serves_python);
    assert_false(pw_process.serves_r);
    assert_int_equal(pw_gate.threshold, 128 << 10); // R's vectors alone are served from 8 KB on
    assert_string_equal(getenv("JE_ARROW_MALLOC_CONF"), "background_thread:false");
    setenv("JE_ARROW_MALLOC_CONF", "dirty_decay_ms:0", 1);
    pw_serve_runtime(true); // who has set it has decided
    assert_string_equal(getenv("JE_ARROW_MALLOC_CONF"), "dirty_decay_ms:0");
    unsetenv("JE_ARROW_MALLOC_CONF");
    pw_process.options.share = PW_SHARE_OFF;
    pw_serve_runtime(true);
    assert_null(getenv("JE_ARROW_MALLOC_CONF"));
    pw_process.options.share = PW_SHARE_LAZY;
}

#define IS_WORKER(words) pw_python_is_worker(words, sizeof words)

// As /proc/self/cmdline has them, of joblib 1.6, loky 3.5 and multiprocessing.
static void workers_are_known_by_how_loky_starts_them(void **state) {
    (void)state;
    assert_true(IS_WORKER("/v/bin/python3\0-m\0joblib.externals.loky.backend.popen_loky_posix\0"
                          "--process-name\0LokyProcess-1\0--pipe\00022"));
    assert_true(IS_WORKER("python\0-X\0dev\0-m\0loky.backend.popen_loky_posix"));
    assert_false(IS_WORKER("python\0my.py\0--workers\0004"));
    assert_false(IS_WORKER("python\0-c\0from multiprocessing.spawn import spawn_main; "
                           "spawn_main(tracker_fd=6, pipe_handle=8)\0--multiprocessing-fork"));
    assert_false(IS_WORKER("python\0-m\0joblib.externals.loky.backend.resource_tracker"));
    assert_false(IS_WORKER("python\0-m\0pytest\0-m\0loky.backend.popen_loky_posix"));
    assert_false(IS_WORKER("loky.backend.popen_loky_posix"));
    assert_false(IS_WORKER("python\0-m"));
    assert_false(IS_WORKER("python\0"));
    assert_false(pw_python_is_worker("python", 6)); // cut off
    assert_false(pw_python_is_worker("", 0));
}

static const char *numpy; // a library of that name

// --- devices ---------------------------------------------------------------------

static char *written_block(size_t size) {
    char *block = pw_allocate(size);
    assert_non_null(block);
    memset(block, 7, size);
    return block;
}

// A page of a block that a device knows is never replaced: here somebody said that there is one.
static void zeros_are_written_where_a_device_may_look(void **state) {
    (void)state;
    size_t size = (size_t)8 << 20;
    pw_process.options.modules = PW_MODULES_ALL;
    char *source = written_block(size), *copy = pw_allocate(size);
    memset(copy, 1, 1);
    pw_copy(copy, source, size);
    struct pw_block_info info;
    assert_true(pw_block_describe(copy, &info));
    assert_true(info.snapshot != 0);
    pw_quiet_others_write();
    assert_false(pw_block_zero(&pw_process, copy, size));
    pw_process.quiet.others_write = false;
    assert_true(pw_block_zero(&pw_process, copy, size));
    for (size_t at = 0; at < size; at += 64) {
        assert_int_equal(copy[at], 0);
    }
    pw_free(copy);
    pw_free(source);
}

// As NumPy makes and copies an array: `site` is in the module of that name.
static bool copies_share(const void *site, char *to, const char *from, size_t size) {
    bool shared = pw_block_copy(&pw_process, to, from, size, site);
    if (!shared) {
        memcpy(to, from, size);
    }
    assert_memory_equal(to, from, size);
    return shared;
}

static char *array(const void *site, size_t size) {
    char *block = pw_block_allocate(&pw_process, size, 1, false, site);
    assert_non_null(block);
    return block;
}

// Even of a source that is published already, and so would not be changed: the copy's own pages may
// be the device's.
static void arrays_share_only_where_no_device_looks(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); // TSan has a thread of its own
#endif
    size_t size = (size_t)8 << 20;
    void *module = dlopen(numpy, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(module);
    const void *site = dlsym(module, "module_allocate");
    assert_non_null(site);
    pw_process.options.modules = PW_MODULES_KNOWN;
    char *source = array(site, size), *first = array(site, size), *second = array(site, size);
    char *third = array(site, size);
    memset(source, 7, size);
    assert_true(copies_share(site, first, source, size));
    pw_quiet_others_write();
    assert_false(copies_share(site, second, source, size));
    pw_process.quiet.others_write = false;
    assert_true(copies_share(site, third, source, size));
    assert_false(copies_share(copies_share, second, source, size)); // not NumPy's
    pw_free(third);
    pw_free(second);
    pw_free(first);
    pw_free(source);
}

// x = np.zeros(n) in a loop: the new zeros are there before the old ones go.
static void zeros_take_no_warm_pages_and_leave_none(void **state) {
    (void)state;
    size_t size = (size_t)32 << 20;
    pw_free(written_block(size)); // its pages are warm
    assert_true(PW_READ(&pw_process.stats, cached_bytes) >= size);
    uint64_t warm = PW_READ(&pw_process.stats, allocated_warm);
    uint64_t mixed = PW_READ(&pw_process.stats, allocated_mixed);
    char *zeros = pw_block_allocate(&pw_process, size, 1, true, numpy);
    assert_non_null(zeros);
    assert_int_equal(PW_READ(&pw_process.stats, allocated_warm), warm);
    assert_int_equal(PW_READ(&pw_process.stats, allocated_mixed), mixed);
    for (size_t at = 0; at < size; at += 64) {
        assert_int_equal(zeros[at], 0);
    }
    memset(zeros, 1, size);
    uint64_t kept = PW_READ(&pw_process.stats, cached_bytes);
    pw_free(zeros);
    assert_true(PW_READ(&pw_process.stats, cached_bytes) <= kept);
    char *other = array(numpy, size);
    memset(other, 1, size);
    pw_free(other); // what was not zeros is kept warm as ever
    assert_true(PW_READ(&pw_process.stats, cached_bytes) >= size);
}

int main(int count, char **words) {
    numpy = count > 1 ? words[1] : "";
    CHECK(pw_start("collect=burst,brief=0"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_numpys_and_the_interpreters),
        cmocka_unit_test(packages_that_work_on_arrays_are_known),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(the_interpreter_loads_modules),
        cmocka_unit_test(the_wheels_openblas_is_a_pool),
        cmocka_unit_test(a_program_with_an_interpreter_is_python),
        cmocka_unit_test(workers_are_known_by_how_loky_starts_them),
        cmocka_unit_test(zeros_are_written_where_a_device_may_look),
        cmocka_unit_test(zeros_take_no_warm_pages_and_leave_none),
        cmocka_unit_test(arrays_share_only_where_no_device_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
