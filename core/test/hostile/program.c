// SPDX-License-Identifier: MIT
//
// The hostile program: hostile --seed N [--steps N] [...]. Ends with 0, or 99 after a failure that
// it found itself. It is run by run, which has the ways to run it.
#include "hostile.h"

#include <dlfcn.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

extern unsigned ways_to_call;
extern const char *plugin_path, *switch_options;
extern bool (*switch_on)(const char *options, const char **reason);
extern void (*switch_off)(void);

static struct {
    uint64_t seed, steps;
    bool list;
    const char *report, *chosen, *left_out, *only, *library, *options;
} run = {.seed = 1, .steps = 20000};

static void usage(void) {
    fprintf(stderr, "hostile: --seed N --steps N --report FILE --chosen FILE --leave-out NAMES "
                    "--only NAMES --plugin FILE --hook LIBRARY --options TEXT --calls N "
                    "--no-headers --others-may-write --merge --list --say\n");
    exit(2);
}

static void read_arguments(int count, char **words) {
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},       {"steps", 1, NULL, 'n'},
        {"report", 1, NULL, 'r'},     {"chosen", 1, NULL, 'c'},
        {"leave-out", 1, NULL, 'l'},  {"only", 1, NULL, 'o'},
        {"plugin", 1, NULL, 'p'},     {"hook", 1, NULL, 'h'},
        {"options", 1, NULL, 't'},    {"calls", 1, NULL, 'R'},
        {"no-headers", 0, NULL, 'U'}, {"say", 0, NULL, 'y'},
        {"list", 0, NULL, 'L'},       {"others-may-write", 0, NULL, 'w'},
        {"merge", 0, NULL, 'm'},      {0},
    };
    world.unhooked_allowed = world.headers = true;
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
        switch (option) {
        case 's':
            run.seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            run.steps = strtoull(optarg, NULL, 0);
            break;
        case 'r':
            run.report = optarg;
            break;
        case 'c':
            run.chosen = optarg;
            break;
        case 'l':
            run.left_out = optarg;
            break;
        case 'o':
            run.only = optarg;
            break;
        case 'p':
            plugin_path = optarg;
            break;
        case 'h':
            run.library = optarg;
            break;
        case 't':
            run.options = optarg;
            break;
        case 'R':
            ways_to_call = (unsigned)atoi(optarg);
            break;
        case 'U':
            world.unhooked_allowed = world.headers = false;
            break;
        case 'w':
            world.others_may_write = true;
            break;
        case 'm':
            prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0);
            break;
        case 'L':
            run.list = true;
            break;
        case 'y':
            say_steps = true;
            break;
        default:
            usage();
        }
    }
}

// As R does: the library is loaded, and functions in our own tables are replaced.
static void hook(void) {
    const char *reason = "";
    void *library = dlopen(run.library, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fail("%s", dlerror());
    }
    switch_on = (bool (*)(const char *, const char **))dlsym(library, "pw_switch_on");
    switch_off = (void (*)(void))dlsym(library, "pw_switch_off");
    switch_options = run.options;
    if (!switch_on || !switch_off || !switch_on(switch_options, &reason)) {
        fail("cannot be switched on: %s", reason);
    }
}

static void raise_file_limit(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void end(void) {
    world.doing = "the end";
    threads_stop();
    forks_end();
    files_check();
    check_all();
    libraries_end();
    for (unsigned i = 0; i < PLACES; i++) {
        if (world.blocks[i].data) {
            release(&world.blocks[i]);
        }
    }
}

static void begin(int count, char **words) {
    read_arguments(count, words);
    report_start(run.report);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mallopt(M_MMAP_THRESHOLD, (int)MAPPED_SIZE);
    raise_file_limit();
    if (run.chosen) {
        plan_leave_steps(run.chosen);
    }
    report_crashes();
    world.seed = run.seed;
    model_start();
    marks_take_key();
    forks_start();
    plan_start(run.seed, run.left_out, run.only);
    if (run.library) {
        hook();
    }
}

#ifdef HOSTILE_IN_R
// For .C in hostile.R: R's own work comes between the steps.
#define CALLED __attribute__((visibility("default")))
CALLED void hostile_begin(char **words, int *count);
CALLED void hostile_steps(double *first, double *count);
CALLED void hostile_end(void);

void hostile_begin(char **words, int *count) {
    begin(*count, words);
}

void hostile_steps(double *first, double *count) {
    run_steps((uint64_t)*first, (uint64_t)*count);
}

void hostile_end(void) {
    world.step = run.steps;
    end();
}
#else
int main(int count, char **words) {
    begin(count, words);
    if (run.list) {
        plan_list(run.steps);
        return 0;
    }
    run_steps(0, run.steps);
    end();
    return 0;
}
#endif
