// A program that holds copies of one block: copies. Each word on standard input is answered when it
// is done: "write" writes to every page of the last copy. It ends with its input.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE   (16ul << 20)
#define COPIES 3

static char *blocks[COPIES + 1];

static void copy(void) {
    for (int block = 0; block <= COPIES; block++) {
        blocks[block] = malloc(SIZE);
        if (!blocks[block])
            exit(99);
    }
    for (size_t at = 0; at < SIZE; at++)
        blocks[0][at] = (char)(at / 4096 + at);
    for (int block = 1; block <= COPIES; block++)
        memcpy(blocks[block], blocks[0], SIZE);
}

static void answer(const char *word) {
    puts(word);
    fflush(stdout);
}

int main(void) {
    copy();
    answer("ready");
    char word[16];
    while (fgets(word, sizeof word, stdin)) {
        for (size_t at = 0; at < SIZE; at += 4096)
            blocks[COPIES][at]++;
        answer("written");
    }
    return memcmp(blocks[0], blocks[1], SIZE) != 0;
}
