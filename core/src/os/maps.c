// SPDX-License-Identifier: MIT
#include "os/maps.h"

#include "os/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

struct reading {
    bool (*see)(void *context, const struct pw_os_line *line);
    void *context;
    char *text;
    size_t size, held;
    bool is_rest; // of a line that was seen
};

static bool see_line(struct reading *reading, const char *text) {
    struct pw_os_line line;
    return !reading->is_rest && parse(text, &line) && reading->see(reading->context, &line);
}

static bool see_lines(struct reading *reading) {
    char *at = reading->text;
    reading->text[reading->held] = '\0';
    for (char *stop; (stop = strchr(at, '\n')); at = stop + 1) {
        *stop = '\0';
        if (see_line(reading, at)) {
            return true;
        }
        reading->is_rest = false;
    }
    reading->held -= (size_t)(at - reading->text);
    memmove(reading->text, at, reading->held + 1);
    if (reading->held < reading->size - 1) {
        return false;
    }
    bool found = see_line(reading, reading->text);
    reading->is_rest = true;
    reading->held = 0;
    return found;
}

bool pw_os_each_line(bool (*see)(void *context, const struct pw_os_line *line), void *context,
                     char *text, size_t size) {
    struct reading reading = {.see = see, .context = context, .text = text, .size = size};
    int saved = errno;
    int fd = PW_OS_FAULT(PW_POINT_MAPS) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool found = false;
    while (fd >= 0 && !found) {
        ssize_t got = read(fd, text + reading.held, size - 1 - reading.held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        reading.held += (size_t)got;
        found = see_lines(&reading);
    }
    if (fd >= 0) {
        close(fd);
    }
    errno = saved;
    return found;
}
