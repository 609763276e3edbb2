// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct node *next;
    int number;
    char name[40];
};

static struct node *first;
static int sums[4];

struct node *add_node(struct node *list, int number) {
    struct node *node = calloc(1, sizeof *node);
    node->next = list;
    node->number = number;
    snprintf(node->name, sizeof node->name, "node %d", number);
    return node;
}

int sum_of(const struct node *list) {
    return list ? list->number + sum_of(list->next) : 0;
}

void *work_off(void *argument) {
    int number = *(int *)argument;
    char *large = malloc(300000);
    memset(large, number, 300000);
    for (int i = 0; i < 1000; i++) {
        large = realloc(large, 300000 + (size_t)i * 997);
        sums[number] += large[i];
    }
    free(large);
    return NULL;
}

int main(int count, char **arguments) {
    for (int i = 1; i <= 50; i++) {
        first = add_node(first, i);
    }
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work_off, &numbers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    if (fork() == 0) {
        _exit(sum_of(first) == 1275 ? 0 : 1);
    }
    printf("%d %d %d %d %d\n", sum_of(first), sums[0], sums[1], sums[2], sums[3]);
    fflush(stdout);
    if (count > 1 && strcmp(arguments[1], "wait") == 0) {
        for (;;) {
            pause();
        }
    }
    if (count > 1 && strcmp(arguments[1], "crash") == 0) {
        *(volatile int *)8 = 1;
    }
    return 7;
}
