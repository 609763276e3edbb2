// SPDX-License-Identifier: MIT
//
// Files that a process writes by mapping them, so that a crash loses nothing.

#include "os/fault.h"
#include "os/mapping.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct pw_os_file pw_os_create(const char *path) {
    int saved = errno;
    int fd = PW_OS_FAULT(PW_POINT_SPOOL_CREATE)
                 ? -1
                 : open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct pw_os_file file = fd < 0 ? PW_OS_NO_FILE : pw_os_adopt(fd);
    errno = saved;
    return file;
}

// The program may have closed our descriptor: the file is found again by its name, and its
// identity.
static int reopen(const struct pw_os_file *file, const char *path) {
    if (!path) {
        errno = EBADF;
        return -1;
    }
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) != 0 || status.st_dev != file->device ||
                    status.st_ino != file->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// A write to a mapped page that the disk has no room for would raise SIGBUS: room is made before.
static bool make_room(int fd, uint64_t offset, size_t size) {
    struct stat status;
    if (PW_OS_FAULT(PW_POINT_SPOOL_STAT) || fstat(fd, &status) != 0 || status.st_nlink == 0) {
        errno = ENOENT; // nobody can read it any more
        return false;
    }
    if (!pw_os_may_write(offset + size)) {
        errno = EFBIG;
        return false;
    }
    int fault = PW_OS_FAULT(PW_POINT_SPOOL_ROOM);
    if (!fault && fallocate(fd, 0, (off_t)offset, (off_t)size) == 0) {
        return true;
    }
    errno = fault ? fault : errno;
    // The file system has not got it, or a sandbox that we were started in denies it.
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM) {
        return false;
    }
    static const char zeros[4096];
    for (size_t done = 0; done < size; done += sizeof zeros) {
        if (!pw_os_write(fd, zeros, sizeof zeros, offset + done)) {
            errno = ENOSPC;
            return false;
        }
    }
    return true;
}

void *pw_os_map_spool(const struct pw_os_file *file, const char *path, uint64_t offset, size_t size,
                      int *error) {
    int saved = errno;
    bool ours = pw_os_is_ours(file);
    int fd = ours ? file->fd : reopen(file, path);
    void *got = MAP_FAILED;
    if (fd >= 0 && make_room(fd, offset, size)) {
        errno = PW_OS_FAULT(PW_POINT_SPOOL_MAP);
        got = errno
                  ? MAP_FAILED
                  : pw_call_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    }
    *error = got == MAP_FAILED ? errno : 0;
    if (fd >= 0 && !ours) {
        close(fd);
    }
    errno = saved;
    return got == MAP_FAILED ? NULL : got;
}

void pw_os_part_from(void *part, size_t size) {
    int saved = errno;
    pw_call_mmap(part, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = saved;
}

size_t pw_os_read_link(const char *path, char *target, size_t size) {
    int saved = errno;
    ssize_t length = readlink(path, target, size - 1);
    length = length < 0 ? 0 : length;
    target[length] = '\0';
    errno = saved;
    return (size_t)length;
}

size_t pw_os_read_file(const char *path, char *content, size_t size) {
    int saved = errno;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    while (fd >= 0 && length < size) {
        ssize_t got = read(fd, content + length, size - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    if (fd >= 0) {
        close(fd);
    }
    errno = saved;
    return length;
}

struct mapping {
    uintptr_t address, start, end;
    char *path;
    size_t size, length;
};

static bool is_wanted(void *context, const struct pw_os_line *line) {
    struct mapping *wanted = context;
    wanted->start = line->start;
    wanted->end = line->end;
    return wanted->address >= line->start && wanted->address < line->end;
}

// Line ends in a path are written "\012".
static bool has_wanted_path(void *context, const struct pw_os_line *line) {
    struct mapping *wanted = context;
    if (!is_wanted(context, line)) {
        return false;
    }
    const char *at = *line->name == '/' ? line->name : "";
    while (*at && wanted->length < wanted->size - 1) {
        bool is_line_end = strncmp(at, "\\012", 4) == 0;
        wanted->path[wanted->length++] = is_line_end ? '\n' : *at;
        at += is_line_end ? 4 : 1;
    }
    wanted->path[wanted->length] = '\0';
    return true;
}

bool pw_os_mapping_of(const void *address, uintptr_t *start, uintptr_t *end) {
    struct mapping wanted = {.address = (uintptr_t)address};
    char text[4 * PW_OS_SHORT_LINE]; // a thread's stack may be small
    bool found = pw_os_each_line(is_wanted, &wanted, text, sizeof text);
    *start = wanted.start;
    *end = wanted.end;
    return found;
}

size_t pw_os_mapped_file(const void *address, char *path, size_t size) {
    struct mapping wanted = {.address = (uintptr_t)address, .path = path, .size = size};
    char text[PW_OS_LONGEST_LINE + 1];
    pw_os_each_line(has_wanted_path, &wanted, text, sizeof text);
    return wanted.length;
}

int pw_os_parent_pid(void) {
    return (int)getppid();
}

uint64_t pw_os_stack_limit(void) {
    // A program may raise its limit when its mappings have long been placed by the one before.
    uint64_t most = (uint64_t)64 << 20;
    struct rlimit limit;
    int saved = errno;
    bool known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most;
    errno = saved;
    return known ? limit.rlim_cur : most;
}
