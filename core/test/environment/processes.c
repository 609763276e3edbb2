// SPDX-License-Identifier: MIT
//
// Other programs started, and the program itself made a daemon.
#include "program.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static int case_spawn(char **arguments) {
    (void)arguments;
    say_work("before");
    unsigned char *block = malloc(2 * MEGABYTE), *copy = malloc(2 * MEGABYTE);
    fill(block, 2 * MEGABYTE, 5);
    memcpy(copy, block, 2 * MEGABYTE);
    for (int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/echo", "echo", "vfork", (char *)NULL);
            _exit(1);
        }
        wait_well(child);
        char *command[] = {(char *)(uintptr_t) "echo", (char *)(uintptr_t) "spawn", NULL};
        CHECK(posix_spawn(&child, "/bin/echo", NULL, NULL, command, environ) == 0);
        wait_well(child);
        CHECK(system("echo system; exit 0") == 0);
        FILE *pipe = popen("echo popen", "r");
        char line[20];
        CHECK(pipe && fgets(line, sizeof line, pipe) && pclose(pipe) == 0);
        copy[i * PAGE] ^= 1;
    }
    char *self[] = {(char *)(uintptr_t)own_path, (char *)(uintptr_t) "work", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, own_path, NULL, NULL, self, environ) == 0);
    wait_well(child);
    printf("%016llx\n", (unsigned long long)sum(copy, 2 * MEGABYTE));
    say_work("after");
    return 0;
}

// As daemon(3) and many servers do it; the result goes to a file.
static int case_daemon(char **arguments) {
    unsigned char *block = malloc(4 * MEGABYTE), *copy = malloc(4 * MEGABYTE);
    fill(block, 4 * MEGABYTE, 5);
    memcpy(copy, block, 4 * MEGABYTE);
    int done[2];
    CHECK(pipe(done) == 0);
    if (fork() != 0) {
        char byte;
        close(done[1]);
        CHECK(read(done[0], &byte, 1) == 1);
        return 0;
    }
    CHECK(setsid() >= 0);
    if (fork() != 0) {
        _exit(0);
    }
    CHECK(dup2(done[1], 3) == 3 && chdir("/") == 0);
    close_all(4);
    close(0);
    close(1);
    close(2);
    CHECK(open("/dev/null", O_RDWR) == 0);
    CHECK(open(arguments[0], O_WRONLY | O_CREAT | O_APPEND, 0600) == 1 && dup(0) == 2);
    copy[100] ^= 1;
    free(block);
    block = malloc(4 * MEGABYTE);
    memcpy(block, copy, 4 * MEGABYTE);
    printf("%016llx\n", (unsigned long long)sum(block, 4 * MEGABYTE));
    say_work("daemon");
    CHECK(write(3, "x", 1) == 1);
    _exit(0);
}

const struct program_case process_cases[] = {
    {"spawn", case_spawn},
    {"daemon", case_daemon},
    {NULL, NULL},
};
