// A library that makes a program that is recorded wait for a letter before anything else of it has
// begun.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void hold(void) {
    const char *path = getenv("HOLD_AT");
    char letter;
    if (path && getenv("PAGEWISE_RECORD")) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0 && read(file, &letter, 1) == 1) {
            close(file);
        }
    }
}
