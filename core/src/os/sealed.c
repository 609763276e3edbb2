// SPDX-License-Identifier: MIT
//
// Memory files and their seals (memfd_create(2), fcntl(2) F_ADD_SEALS): objects that processes
// share, and witnesses, which tell who else has our memory. The way to an object from another
// process: /proc/PID/fd (proc_pid_fd(5)). Following such a link is allowed to a process of the same
// user that could read the other's memory (PTRACE_MODE_READ_FSCREDS in ptrace(2)); Yama restricts
// attaching only, and so does not restrict this.
#include "os/fault.h"
#include "os/os.h"
#include "os/system_call.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

bool pw_os_seal(const struct pw_os_file *file) {
    int saved = errno;
    bool done = !PW_OS_FAULT(PW_POINT_FILE_SEAL) && pw_os_is_ours(file) &&
                fchmod(file->fd, S_IRUSR) == 0 && fcntl(file->fd, F_ADD_SEALS, SEALS) == 0;
    errno = saved;
    return done;
}

// What the link to a memory file reads.
static void link_of(const char *name, char *target, size_t size) {
    snprintf(target, size, "/memfd:%s (deleted)", name);
}

static bool leads_to(int folder, const char *path, const char *target) {
    char found[NAME_MAX + 32];
    ssize_t length = readlinkat(folder, path, found, sizeof found - 1);
    found[length < 0 ? 0 : length] = '\0';
    return length > 0 && strcmp(found, target) == 0;
}

struct pw_os_file pw_os_open_of_process(uint32_t pid, int32_t fd, const char *name, int *error) {
    char path[64], target[NAME_MAX + 32];
    int saved = errno;
    snprintf(path, sizeof path, "/proc/%lu/fd/%ld", (unsigned long)pid, (long)fd);
    link_of(name, target, sizeof target);
    errno = PW_OS_FAULT(PW_POINT_FILE_OPEN);
    // Looked at first: to open another kind of file may wait, or have effects. It may become one
    // before it is opened.
    int opened = errno || !leads_to(AT_FDCWD, path, target)
                     ? -1
                     : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *error = opened < 0 ? (errno ? errno : ENOENT) : 0;
    struct pw_os_file file = pw_os_adopt(opened);
    if (opened >= 0 && file.fd < 0) {
        *error = EMFILE;
    }
    errno = saved;
    return file;
}

// A memory file of pages from the hugetlb pool can be sealed as well, but who maps it meets SIGBUS
// where the pool has no page for a hole in it, or for a copy.
static bool is_ordinary_memory(int fd) {
    struct statfs system;
    return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

uint64_t pw_os_sealed_size(const struct pw_os_file *file) {
    int saved = errno;
    struct stat status;
    int seals = fcntl(file->fd, F_GET_SEALS);
    bool sealed = seals >= 0 && (seals & SEALS) == SEALS && is_ordinary_memory(file->fd) &&
                  fstat(file->fd, &status) == 0 && S_ISREG(status.st_mode) &&
                  status.st_uid == geteuid();
    errno = saved;
    return sealed ? (uint64_t)status.st_size : 0;
}

bool pw_os_read(const struct pw_os_file *file, void *to, size_t size, uint64_t offset) {
    int saved = errno;
    char *next = to;
    bool ours = pw_os_is_ours(file);
    while (ours && size > 0) {
        errno = PW_OS_FAULT(PW_POINT_FILE_READ);
        ssize_t got = errno ? -1 : pread(file->fd, next, size, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        next += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    errno = saved;
    return ours && size == 0;
}

void *pw_os_map_private(const struct pw_os_file *file, size_t size, uint64_t offset) {
    int saved = errno;
    void *got = PW_OS_FAULT(PW_POINT_MAP_SNAPSHOT) || !pw_os_is_ours(file)
                    ? MAP_FAILED
                    : pw_call_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                                   file->fd, (off_t)offset);
    errno = saved;
    return got == MAP_FAILED ? NULL : got;
}

static bool is_number(const char *text, unsigned long *number) {
    char *end;
    *number = strtoul(text, &end, 10);
    return end != text && *end == '\0';
}

struct search {
    const char *target; // what the link must read
    pw_os_visit_holder *visit;
    void *context;
    bool more;
};

// False: there was no memory for it.
static bool search_process(struct search *search, unsigned long pid, int descriptors) {
    DIR *folder = fdopendir(descriptors);
    if (!folder) {
        close(descriptors);
        return false;
    }
    const struct dirent *entry;
    while (search->more && (entry = readdir(folder))) {
        unsigned long fd;
        if (is_number(entry->d_name, &fd) &&
            leads_to(dirfd(folder), entry->d_name, search->target)) {
            search->more = search->visit(search->context, (uint32_t)pid, (int32_t)fd);
        }
    }
    closedir(folder);
    return true;
}

static bool is_limit(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

static bool is_of_this_user(uint32_t pid) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%u", pid);
    return stat(path, &status) == 0 && status.st_uid == geteuid();
}

#define EXITING 0x4u                   // PF_EXITING, of the flags in /proc/PID/stat
#define KILLED  (1ul << (SIGKILL - 1)) // in masks of signals

// Has the thread ended, or been killed? It shows the one before it takes effect, and the other as
// soon as that is taken back: so they are read in this order.
static bool is_ending(const char *folder, const char *thread) {
    char path[NAME_MAX + 64], text[4096], state;
    unsigned flags;
    snprintf(path, sizeof path, "%s/%s/status", folder, thread);
    const char *pending =
        pw_os_read_text(path, text, sizeof text) > 0 ? strstr(text, "SigPnd:") : NULL;
    if (pending && strtoul(pending + strlen("SigPnd:"), NULL, 16) & KILLED) {
        return true;
    }
    snprintf(path, sizeof path, "%s/%s/stat", folder, thread);
    if (pw_os_read_text(path, text, sizeof text) <= 0) {
        return access(path, F_OK) != 0 && errno == ENOENT;
    }
    const char *name_end = strrchr(text, ')'); // a name may hold anything
    return name_end && sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
           (flags & EXITING);
}

// Where the first thread's memory is gone, a process of several goes on if others do. One that is
// killed ends thread by thread.
static bool has_live_thread(uint32_t pid) {
    char path[64];
    unsigned long number;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *threads = opendir(path);
    if (!threads) {
        return is_of_this_user(pid);
    }
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(threads))) {
        found = is_number(entry->d_name, &number) && !is_ending(path, entry->d_name);
    }
    closedir(threads);
    return found;
}

static bool may_hold(uint32_t pid) {
    char path[64], pages[32];
    if (!is_of_this_user(pid)) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%u/statm", pid);
    if (pw_os_read_text(path, pages, sizeof pages) <= 0) {
        return is_of_this_user(pid); // it may have gone meanwhile
    }
    return strncmp(pages, "0 ", 2) != 0 || has_live_thread(pid);
}

bool pw_os_may_hold(uint32_t pid) {
    int saved = errno;
    bool may = may_hold(pid);
    errno = saved;
    return may;
}

bool pw_os_each_holder(const char *name, pw_os_visit_holder *visit, void *context) {
    int saved = errno;
    char target[NAME_MAX + 32], path[64];
    link_of(name, target, sizeof target);
    struct search search = {target, visit, context, true};
    bool hidden = false;
    DIR *processes = opendir("/proc");
    bool limited = !processes && is_limit(errno);
    const struct dirent *entry;
    while (processes && search.more && !limited && (entry = readdir(processes))) {
        unsigned long pid;
        struct stat status;
        if (!is_number(entry->d_name, &pid)) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%lu/fd", pid);
        int descriptors = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptors >= 0 && fstat(descriptors, &status) == 0 && status.st_uid == geteuid()) {
            limited = !search_process(&search, pid, descriptors);
        } else if (descriptors >= 0) {
            close(descriptors);
        } else if (is_limit(errno)) {
            limited = true;
        } else {
            hidden |= pw_os_may_hold((uint32_t)pid);
        }
    }
    hidden |= !processes || limited;
    if (processes) {
        closedir(processes);
    }
    if (limited) {
        visit(context, 0, -1);
    }
    errno = saved;
    return hidden;
}

// --- witnesses ---------------------------------------------------------------
//
// Who else has our memory. The kernel counts the shared mappings of a file that may be written, for
// the sake of the seal F_SEAL_WRITE (memfd_create(2), fcntl(2)), which it refuses with EBUSY while
// there is one. fork copies each mapping, whoever asks for it and however, so that a memory file of
// ours, mapped at the time, tells of every child that has our memory, and of its children.
//
// Nothing else changes that count: not other readers of memory, nor merging, swap or migration,
// which move pages. The file has none: it is empty, so that nobody can make one by reading, and a
// page that is held for a moment would have the seal wait for up to a sixth of a second.

enum pw_os_made pw_os_witness_make(struct pw_os_witness *witness) {
    int saved = errno;
    bool limited = false;
    struct pw_os_file file = pw_os_sealable_file("pagewise-witness", &limited);
    void *page = MAP_FAILED;
    if (file.fd >= 0 && !PW_OS_FAULT(PW_POINT_WITNESS)) {
        // Not readable: whoever reads what may be read must not meet the end of the file.
        page = pw_call_mmap(NULL, PW_PAGE, PROT_NONE, MAP_SHARED, file.fd, 0);
    }
    enum pw_os_made made = file.fd < 0          ? PW_OS_NO_DESCRIPTOR
                           : page == MAP_FAILED ? PW_OS_NO_MAPPING
                                                : PW_OS_MADE;
    if (made == PW_OS_NO_MAPPING) {
        pw_os_close(&file);
    }
    *witness = (struct pw_os_witness){file, made == PW_OS_MADE ? page : NULL};
    errno = saved;
    return made;
}

enum pw_os_seen pw_os_witness_ask(const struct pw_os_witness *witness) {
    if (!pw_os_is_ours(&witness->file)) {
        return PW_OS_LOST;
    }
    int saved = errno;
    errno = PW_OS_FAULT(PW_POINT_WITNESS_ASK);
    bool sealed = !errno && fcntl(witness->file.fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
    enum pw_os_seen seen = sealed           ? PW_OS_NOT_MAPPED
                           : errno == EBUSY ? PW_OS_MAPPED
                                            : PW_OS_NOT_TOLD;
    errno = saved;
    return seen;
}
