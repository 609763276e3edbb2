// SPDX-License-Identifier: MIT
#include "os/fault.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Programs expect small numbers for their own files: ours start here where the limit allows.
#define LOWEST_DESCRIPTOR 512

static int lowest_of_ours(void) {
    struct rlimit limit;
    bool small = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 2 * LOWEST_DESCRIPTOR;
    return small ? (int)(limit.rlim_cur / 2) : LOWEST_DESCRIPTOR;
}

static int move_up(int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest_of_ours());
    if (moved < 0) {
        return fd;
    }
    close(fd);
    return moved;
}

struct pw_os_file pw_os_adopt(int fd) {
    struct stat status;
    fd = fd < 0 ? fd : move_up(fd);
    if (fd < 0 || PW_OS_FAULT(PW_POINT_FILE_STAT) || fstat(fd, &status) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return PW_OS_NO_FILE;
    }
    return (struct pw_os_file){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
}

// The kernel gives the lowest number that is free: one from the last quarter of the program's says
// that no lower one is left.
bool pw_os_leaves_room(const struct pw_os_file *file) {
    int saved = errno;
    int lowest = lowest_of_ours();
    errno = saved;
    return file->fd >= lowest || file->fd < lowest - lowest / 4;
}

bool pw_os_is_ours(const struct pw_os_file *file) {
    int saved = errno;
    struct stat status;
    bool ours = file->fd >= 0 && !PW_OS_FAULT(PW_POINT_FILE_STAT) &&
                fstat(file->fd, &status) == 0 && status.st_dev == file->device &&
                status.st_ino == file->inode;
    errno = saved;
    return ours;
}

void pw_os_close(struct pw_os_file *file) {
    if (pw_os_is_ours(file)) {
        int saved = errno;
        close(file->fd);
        errno = saved;
    }
    *file = PW_OS_NO_FILE;
}

bool pw_os_may_write(uint64_t end) {
    struct rlimit limit;
    int saved = errno;
    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
               (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= end);
    errno = saved;
    return may;
}

// MFD_NOEXEC_SEAL of Linux 6.3, without which vm.memfd_noexec = 2 refuses the file.
#define NEVER_EXECUTABLE 8u

static struct pw_os_file memory_file(const char *name, uint64_t size, unsigned flags,
                                     bool *limited) {
    int saved = errno;
    struct pw_os_file file = PW_OS_NO_FILE;
    *limited = !pw_os_may_write(size);
    if (!*limited && !PW_OS_FAULT(PW_POINT_FILE_CREATE)) {
        int fd = memfd_create(name, MFD_CLOEXEC | flags);
        if (fd < 0 && errno == EINVAL && flags & NEVER_EXECUTABLE) {
            fd = memfd_create(name, MFD_CLOEXEC | (flags & ~NEVER_EXECUTABLE));
        }
        file = pw_os_adopt(fd);
    }
    bool sized = file.fd >= 0 && !PW_OS_FAULT(PW_POINT_FILE_SIZE) &&
                 fchmod(file.fd, S_IRUSR | S_IWUSR) == 0 && ftruncate(file.fd, (off_t)size) == 0;
    if (file.fd >= 0 && !sized) {
        pw_os_close(&file);
    }
    errno = saved;
    return file;
}

struct pw_os_file pw_os_memory_file(const char *name, uint64_t size, bool *limited) {
    return memory_file(name, size, 0, limited);
}

struct pw_os_file pw_os_sealable_file(const char *name, bool *limited) {
    return memory_file(name, 0, MFD_ALLOW_SEALING | NEVER_EXECUTABLE, limited);
}

bool pw_os_write(int fd, const void *from, size_t size, uint64_t offset) {
    int saved = errno;
    const char *next = from;
    while (size > 0) {
        int fault = PW_OS_FAULT(PW_POINT_FILE_WRITE);
        size_t part = fault < 0 ? (size + 1) / 2 : size;
        errno = fault;
        ssize_t written = fault > 0 ? -1 : pwrite(fd, next, part, (off_t)offset);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            break;
        }
        next += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    errno = saved;
    return size == 0;
}

bool pw_os_punch(int fd, uint64_t offset, size_t size) {
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    int saved = errno, fault = PW_OS_FAULT(PW_POINT_FILE_PUNCH);
    if (fault < 0) {
        fallocate(fd, mode, (off_t)offset, (off_t)((size / 2 & ~(PW_PAGE - 1)) + PW_PAGE));
    }
    bool done = !fault && fallocate(fd, mode, (off_t)offset, (off_t)size) == 0;
    errno = saved;
    return done;
}

// After an exec the PID's first name is taken: the program before it left its figures there.
static int create_statistics(const char *directory, char path[PATH_MAX]) {
    for (int number = 0; number < 1000; number++) {
        int length =
            number ? snprintf(path, PATH_MAX, "%s/pagewise-%d.%d.stats", directory, (int)getpid(),
                              number)
                   : snprintf(path, PATH_MAX, "%s/pagewise-%d.stats", directory, (int)getpid());
        if (length < 0 || length >= PATH_MAX) {
            return -1;
        }
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

// The file's pages, now: a store to a page for which the file system has no room is a SIGBUS.
static bool reserve(int fd, size_t size) {
    if (ftruncate(fd, (off_t)size) != 0) {
        return false;
    }
    static const char zeros[PW_PAGE];
    bool reserved = fallocate(fd, 0, 0, (off_t)size) == 0;
    bool full = !reserved && errno == ENOSPC;
    // Not every file system has the call, and not every container allows it.
    for (size_t done = 0; !reserved && !full && done < size; done += PW_PAGE) {
        size_t part = size - done < PW_PAGE ? size - done : PW_PAGE;
        full = pwrite(fd, zeros, part, (off_t)done) != (ssize_t)part;
    }
    return !full;
}

void *pw_os_map_statistics(const char *directory, size_t size, void *address) {
    int saved = errno;
    void *got = MAP_FAILED;
    char path[PATH_MAX];
    int fd = PW_OS_FAULT(PW_POINT_STATISTICS) || !pw_os_may_write(size)
                 ? -1
                 : create_statistics(directory, path);
    if (fd >= 0) {
        if (reserve(fd, size)) {
            got = pw_call_mmap(address, size, PROT_READ | PROT_WRITE,
                               MAP_SHARED | (address ? MAP_FIXED : 0), fd, 0);
        }
        if (got == MAP_FAILED) {
            unlink(path); // it would hold no figures
        }
        close(fd);
    }
    errno = saved;
    return got == MAP_FAILED ? NULL : got;
}

// --- texts for people ----------------------------------------------------------

// Returns 0, or the errno with which it ended early.
static int write_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        if (written == 0) {
            return EIO;
        }
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static void take_signal(int number) {
    static const struct timespec now;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigtimedwait(&one, NULL, &now);
}

// To a pipe that nobody reads, say, or a file that has reached RLIMIT_FSIZE: a program that writes
// nothing itself must not end by what we write.
bool pw_os_write_harmlessly(int fd, const char *text, size_t length) {
    sigset_t ending, saved, pending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGPIPE);
    sigaddset(&ending, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ending, &saved);
    int error = write_all(fd, text, length);
    int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (raised && !sigismember(&pending, raised)) {
        take_signal(raised);
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error == 0;
}

bool pw_os_print(const char *text, size_t length) {
    int saved = errno;
    bool printed = pw_os_write_harmlessly(STDERR_FILENO, text, length);
    errno = saved;
    return printed;
}

// The first %p of the path is the process's number. False: there is no room.
static bool expand(const char *path, const char *end, char *expanded, size_t size) {
    const char *place = strstr(path, "%p");
    int length = place ? snprintf(expanded, size, "%.*s%d%s%s", (int)(place - path), path, getpid(),
                                  place + 2, end)
                       : snprintf(expanded, size, "%s%s", path, end);
    return length > 0 && (size_t)length < size;
}

// A device, a pipe or a link (/dev/null, /dev/stderr) stays what it is, and what it leads to keeps
// what is there. A pipe that nobody reads is not waited for.
static bool add_to(const char *path, const char *text, size_t length) {
    int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool written = fd >= 0 && pw_os_write_harmlessly(fd, text, length);
    if (fd >= 0) {
        close(fd);
    }
    return written;
}

static bool write_in_place_of(const char *path, const char *begun, const char *text,
                              size_t length) {
    int fd = pw_os_may_write(length)
                 ? open(begun, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                 : -1;
    bool written = fd >= 0 && pw_os_write_harmlessly(fd, text, length);
    written = fd >= 0 && close(fd) == 0 && written && rename(begun, path) == 0;
    if (fd >= 0 && !written) {
        unlink(begun);
    }
    return written;
}

bool pw_os_write_report(const char *path, const char *text, size_t length) {
    char wanted[512], begun[512], number[32];
    struct stat there;
    int saved = errno;
    bool written = false;
    snprintf(number, sizeof number, ".%d.new", getpid());
    if (expand(path, "", wanted, sizeof wanted) && expand(path, number, begun, sizeof begun)) {
        written = lstat(wanted, &there) == 0 && !S_ISREG(there.st_mode)
                      ? add_to(wanted, text, length)
                      : write_in_place_of(wanted, begun, text, length);
    }
    errno = saved;
    return written;
}
