// SPDX-License-Identifier: MIT
//
// Which step does what. The operation of a step and all its random numbers follow from the seed and
// the step's number alone.
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPERATIONS 128

static const struct operation *const sources[] = {
    block_operations, copy_operations, mark_operations,   fork_operations,    thread_operations,
    limit_operations, file_operations, signal_operations, library_operations, kernel_operations,
};

static const struct operation *operations[MOST_OPERATIONS];
static uint64_t weights[MOST_OPERATIONS]; // summed up
static unsigned operation_count;

// --- random numbers ----------------------------------------------------------------

static uint64_t mix(uint64_t value) { // splitmix64
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

struct random random_of(uint64_t seed, uint64_t step) {
    return (struct random){mix(seed ^ mix(step)) | 1};
}

uint64_t random_next(struct random *random) { // xorshift64*
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * 0x2545f4914f6cdd1du;
}

uint64_t random_below(struct random *random, uint64_t limit) {
    return (random_next(random) >> 11) % limit;
}

bool random_chance(struct random *random, unsigned one_in) {
    return random_below(random, one_in) == 0;
}

// --- operations ----------------------------------------------------------------------

static bool is_named(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length])) {
            return true;
        }
    }
    return false;
}

// Each seed has its own mood: some operations are frequent, others are left out, as a program that
// does everything evenly seldom does one thing many times without another that would hide it.
static uint64_t weight_of(const struct operation *operation, uint64_t seed) {
    static const unsigned moods[] = {0, 1, 1, 2, 6};
    static const unsigned dear[] = {0, 1, 1, 2, 2};
    bool cheap = operation->weight >= 2000;
    uint64_t name = 0;
    for (const char *at = operation->name; *at; at++) {
        name = mix(name ^ (unsigned char)*at);
    }
    unsigned mood = mix(seed ^ name) % 5;
    return (uint64_t)operation->weight * (cheap ? moods[mood] : dear[mood]);
}

void plan_start(uint64_t seed, const char *left_out, const char *only) {
    uint64_t sum = 0;
    operation_count = 0;
    for (size_t list = 0; list < sizeof sources / sizeof sources[0]; list++) {
        for (const struct operation *at = sources[list]; at->name; at++) {
            bool wanted = (!only || is_named(only, at->name)) && !is_named(left_out, at->name);
            uint64_t weight = wanted ? weight_of(at, seed) : 0;
            if (!weight || operation_count == MOST_OPERATIONS) {
                continue;
            }
            operations[operation_count] = at;
            weights[operation_count++] = sum += weight;
        }
    }
    if (operation_count == 0) {
        fprintf(stderr, "hostile: no operations are left\n");
        exit(2);
    }
}

const struct operation *plan_operation(void) {
    world.random = random_of(world.seed, world.step);
    uint64_t at = random_below(&world.random, weights[operation_count - 1]);
    unsigned low = 0, high = operation_count - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (weights[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return operations[low];
}

// --- steps ---------------------------------------------------------------------------

static unsigned char *chosen; // a byte for each step; NULL: all steps are run
static uint64_t chosen_count;

void plan_leave_steps(const char *path) {
    FILE *file = fopen(path, "r");
    unsigned long long first, last;
    if (!file) {
        perror(path);
        exit(2);
    }
    chosen_count = (uint64_t)1 << 24;
    chosen = raw_memory(chosen_count, false);
    while (fscanf(file, "%llu %llu", &first, &last) == 2) {
        for (; first <= last && first < chosen_count; first++) {
            chosen[first] = 1;
        }
    }
    fclose(file);
}

// The operation of each step, in a line: for whoever shortens a run.
void plan_list(uint64_t steps) {
    for (world.step = 0; world.step < steps; world.step++) {
        puts(plan_operation()->name);
    }
}

static bool is_left_out(uint64_t step) {
    return world.depth == 0 && chosen && (step >= chosen_count || !chosen[step]);
}

static bool is_allowed(const struct operation *operation) {
    return (world.depth == 0 || operation->allowed & IN_CHILDREN) &&
           (!world.threads || operation->allowed & WITH_THREADS) &&
           (world.may_allocate || operation->allowed & NO_MALLOC);
}

void run_steps(uint64_t first, uint64_t count) {
    for (world.step = first; world.step < first + count; world.step++) {
        if (is_left_out(world.step)) {
            continue;
        }
        const struct operation *operation = plan_operation();
        if (world.depth == 0) {
            report->step = world.step;
        }
        if (is_allowed(operation)) {
            world.doing = operation->name;
            operation->run();
        }
        if (world.threads) {
            threads_look();
        }
        if (world.depth == 0) {
            report_count(&report->steps, 1);
        }
    }
}
