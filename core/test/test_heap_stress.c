// SPDX-License-Identifier: MIT
//
// Random operations on transaction heaps beside a model:
//     test_heap_stress [--seed N] [--rounds N] [--steps N]
#include "heap_model.h"
#include "support.h"

static unsigned long argument(int argc, char **argv, const char *name, unsigned long otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], name)) {
            return strtoul(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

int main(int argc, char **argv) {
    unsigned long seed = argument(argc, argv, "--seed", (unsigned long)getpid());
    unsigned long rounds = argument(argc, argv, "--rounds", 48);
    size_t size = argument(argc, argv, "--steps", 20000) * 4;
    printf("test_heap_stress --seed %lu --rounds %lu --steps %zu\n", seed, rounds, size / 4);
    fflush(stdout);
    uint8_t *data = malloc(size);
    struct random noise = random_from(seed);
    for (unsigned long round = 0; data && round < rounds; round++) {
        random_fill(&noise, data, size);
        data[1] = (uint8_t)round; // every combination of flags in turn
        for (size_t at = 2; at < size; at++) {
            data[at] = (uint8_t)random_next(&noise);
        }
        heap_model_run(data, size);
    }
    bool ran = data != NULL;
    free(data);
    return ran ? 0 : 1;
}
