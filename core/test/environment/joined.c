// SPDX-License-Identifier: MIT
//
// Forks beside a library whose handler waits for another thread (joined_library.c).
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    alarm(60); // a deadlock ends here
    for (int i = 0; i < 20; i++) {
        usleep(3000);
        pid_t child = fork();
        if (child == 0) {
            _exit(i);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("%d\n", WEXITSTATUS(status));
    }
    return 0;
}
