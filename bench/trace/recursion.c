// Allocates at the ends of deep stacks: recursion ROUNDS. Writes its elapsed and its CPU seconds to
// $TIMES.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEPTH 5000

static __attribute__((noinline)) int descend(int depth) {
    char *volatile block = depth % 10 == 0 ? malloc(50) : NULL;
    int below = depth > 0 ? descend(depth - 1) + 1 : 0;
    free(block);
    return below;
}

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    double begun = seconds(CLOCK_MONOTONIC);
    int sum = 0;
    for (int round = count > 1 ? atoi(arguments[1]) : 1; round > 0; round--)
        sum += descend(DEPTH);
    const char *path = getenv("TIMES");
    FILE *times = path != NULL ? fopen(path, "w") : NULL;
    if (times == NULL)
        return 1;
    double elapsed = seconds(CLOCK_MONOTONIC) - begun;
    fprintf(times, "%f %f", elapsed, seconds(CLOCK_PROCESS_CPUTIME_ID));
    fclose(times);
    printf("%d\n", sum);
    return 0;
}
