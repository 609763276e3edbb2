// SPDX-License-Identifier: MIT
#include "os/maps.h"

#include "os/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST_LINE (4096 + 256) // a path, and what is before it

// Hexadecimal digits. Returns what follows them.
static const char *parse_number(const char *text, uintptr_t *number) {
    for (*number = 0;; text++) {
        if (*text >= '0' && *text <= '9') {
            *number = *number << 4 | (uintptr_t)(*text - '0');
        } else if (*text >= 'a' && *text <= 'f') {
            *number = *number << 4 | (uintptr_t)(*text - 'a' + 10);
        } else {
            return text;
        }
    }
}

static const char *skip_field(const char *text) {
    text += strcspn(text, " ");
    return text + strspn(text, " ");
}

// "START-END rwxp OFFSET DEVICE INODE      NAME"
static bool parse(const char *text, struct pw_os_line *line) {
    text = parse_number(text, &line->start);
    if (*text != '-') {
        return false;
    }
    text = parse_number(text + 1, &line->end);
    if (*text != ' ' || strnlen(text, 4) < 4) {
        return false;
    }
    line->protection = (text[1] == 'r' ? PROT_READ : 0) | (text[2] == 'w' ? PROT_WRITE : 0) |
                       (text[3] == 'x' ? PROT_EXEC : 0);
    text++;
    for (int fields = 0; fields < 4; fields++) {
        text = skip_field(text);
    }
    line->name = text;
    return true;
}

bool pw_os_each_line(bool (*see)(void *context, const struct pw_os_line *line), void *context) {
    int saved = errno;
    int fd = PW_OS_FAULT(PW_POINT_MAPS) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char text[LONGEST_LINE + 1];
    size_t held = 0;
    bool found = false;
    while (fd >= 0 && !found) {
        ssize_t got = read(fd, text + held, sizeof text - 1 - held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        held += (size_t)got;
        text[held] = '\0';
        char *at = text;
        for (char *stop; !found && (stop = strchr(at, '\n')); at = stop + 1) {
            struct pw_os_line line;
            *stop = '\0';
            found = parse(at, &line) && see(context, &line);
        }
        held -= (size_t)(at - text);
        memmove(text, at, held);
        if (held == sizeof text - 1) {
            held = 0; // a line longer than any path
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    errno = saved;
    return found;
}
