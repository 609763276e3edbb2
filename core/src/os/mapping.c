// SPDX-License-Identifier: MIT
//
// How memory of this process is mapped, as the kernel tells it.
#include "os/mapping.h"

#include "os/fault.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

// PROCMAP_QUERY (Linux 6.11), which the headers of older systems do not have.
struct query {
    uint64_t size, flags, address;
    uint64_t start, end, mapping_flags, page_size, offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name_address, build_id_address;
};

#define QUERY            _IOWR('f', 17, struct query)
#define QUERY_READABLE   1u
#define QUERY_WRITABLE   2u
#define QUERY_EXECUTABLE 4u
#define QUERY_SHARED     8u
#define QUERY_OR_NEXT    16u

bool pw_os_maps_open(struct pw_os_maps *maps) {
    int saved = errno;
    maps->fd = PW_OS_FAULT(PW_POINT_MAPS) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    maps->start = maps->end = 0;
    errno = saved;
    return maps->fd >= 0;
}

void pw_os_maps_close(struct pw_os_maps *maps) {
    int saved = errno;
    if (maps->fd >= 0) {
        close(maps->fd);
    }
    maps->fd = -1;
    errno = saved;
}

// Is the mapping at `address` private anonymous memory that may be read and written? Its bounds are
// remembered. False: the kernel would not tell.
static bool look(struct pw_os_maps *maps, uintptr_t address, bool *ordinary) {
    struct query query = {.size = sizeof query, .address = address};
    if (pw_call_ioctl(maps->fd, QUERY, &query) != 0) {
        *ordinary = false;
        return errno == ENOENT; // nothing is mapped there
    }
    *ordinary = (query.mapping_flags & (QUERY_READABLE | QUERY_WRITABLE | QUERY_EXECUTABLE |
                                        QUERY_SHARED)) == (QUERY_READABLE | QUERY_WRITABLE) &&
                query.inode == 0;
    if (*ordinary) {
        maps->start = query.start;
        maps->end = query.end;
    }
    return true;
}

bool pw_os_maps_ordinary(struct pw_os_maps *maps, const void *address, size_t size,
                         bool *ordinary) {
    uintptr_t at = (uintptr_t)address, end = at + size;
    int saved = errno;
    bool known = true;
    *ordinary = true;
    while (at < end && known && *ordinary) {
        if (at < maps->start || at >= maps->end) {
            known = look(maps, at, ordinary);
        }
        at = maps->end;
    }
    errno = saved;
    return known;
}

struct search {
    uintptr_t address;
    struct pw_os_mapping *found;
};

static bool ends_behind(void *context, const struct pw_os_line *line) {
    const struct search *search = context;
    struct pw_os_mapping *found = search->found;
    if (line->end <= search->address) {
        return false;
    }
    *found = (struct pw_os_mapping){line->start, line->end, line->protection, ""};
    memcpy(found->name, line->name, strnlen(line->name, sizeof found->name - 1));
    return true;
}

static int protection_of(const struct query *query) {
    return (query->mapping_flags & QUERY_READABLE ? PROT_READ : 0) |
           (query->mapping_flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
           (query->mapping_flags & QUERY_EXECUTABLE ? PROT_EXEC : 0);
}

// False: the kernel would not tell. Of a name that is too long, a path's, the first letter is told.
static bool look_from(const struct pw_os_maps *maps, uintptr_t address,
                      struct pw_os_mapping *mapping) {
    struct query query = {.size = sizeof query,
                          .flags = QUERY_OR_NEXT,
                          .address = address,
                          .name_size = sizeof mapping->name,
                          .name_address = (uintptr_t)mapping->name};
    int result = pw_call_ioctl(maps->fd, QUERY, &query);
    bool is_long = result != 0 && errno == ENAMETOOLONG;
    if (is_long) {
        query.name_size = 0;
        query.name_address = 0;
        result = pw_call_ioctl(maps->fd, QUERY, &query);
    }
    if (result != 0) {
        return false;
    }
    if (query.name_size) {
        mapping->name[sizeof mapping->name - 1] = '\0';
    } else {
        strcpy(mapping->name, is_long ? "/" : "");
    }
    mapping->start = query.start;
    mapping->end = query.end;
    mapping->protection = protection_of(&query);
    return true;
}

// On a signal handler's stack, of a few KB, there is little room.
bool pw_os_mapping_from(const void *address, struct pw_os_mapping *mapping) {
    struct search search = {(uintptr_t)address, mapping};
    struct pw_os_maps maps;
    int saved = errno;
    bool found = pw_os_maps_open(&maps) && look_from(&maps, search.address, mapping);
    pw_os_maps_close(&maps);
    errno = saved;
    char text[PW_OS_SHORT_LINE];
    return found || pw_os_each_line(ends_behind, &search, text, sizeof text);
}

bool pw_os_map_empty(void *address, size_t size, int protection) {
    int saved = errno;
    void *got = PW_OS_FAULT(PW_POINT_MAP_BLANK)
                    ? MAP_FAILED
                    : pw_call_mmap(address, size, protection,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = saved;
    return got == address;
}

// By the number of this thread: the process's own is that of the first thread, which may have
// ended.
static ssize_t read_own(const struct iovec *here, const struct iovec *there, size_t count) {
    return process_vm_readv(pw_os_thread_id(), here, 1, there, count, 0);
}

bool pw_os_peek(const void *address, void *to, size_t size) {
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)address, size};
    int saved = errno;
    bool done = read_own(&here, &there, 1) == (ssize_t)size;
    errno = saved;
    return done;
}

bool pw_os_poke(void *address, const void *from, size_t size) {
    struct iovec here = {(void *)(uintptr_t)from, size}, there = {address, size};
    int saved = errno;
    bool done = process_vm_writev(pw_os_thread_id(), &here, 1, &there, 1, 0) == (ssize_t)size;
    errno = saved;
    return done;
}

// Shared memory and files have names. So may anonymous memory, by prctl: "[anon:...]".
bool pw_os_is_one_mapping_of_own(const void *address, size_t size) {
    struct pw_os_mapping mapping;
    return pw_os_mapping_from(address, &mapping) && mapping.start <= (uintptr_t)address &&
           mapping.end >= (uintptr_t)address + size &&
           (mapping.protection & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) &&
           (mapping.name[0] == '\0' || strncmp(mapping.name, "[anon:", 6) == 0);
}

enum pw_os_page pw_os_page_at(const void *address) {
    unsigned char is_here = 0;
    int saved = errno;
    void *page = (void *)((uintptr_t)address & ~(PW_PAGE - 1));
    bool is_told = mincore(page, PW_PAGE, &is_here) == 0, is_none = !is_told && errno == ENOMEM;
    errno = saved;
    return is_none                  ? PW_OS_PAGE_NONE
           : is_told && is_here & 1 ? PW_OS_PAGE_HERE
                                    : PW_OS_PAGE_UNKNOWN;
}

bool pw_os_is_locked(const void *address, size_t size) {
    int saved = errno;
    bool locked =
        pw_call_madvise((void *)(uintptr_t)address, size, MADV_COLD) != 0 && errno == EINVAL;
    errno = saved;
    return locked;
}

#define TEXTS 32u // of which one call reads the first bytes

static bool fault(const struct iovec *first, size_t count) {
    char bytes[TEXTS];
    struct iovec here = {bytes, count};
    int saved = errno;
    ssize_t got = read_own(&here, first, count);
    bool faults = got >= 0 ? got < (ssize_t)count : errno == EFAULT;
    errno = saved;
    return faults;
}

bool pw_os_texts_are_there(char *const texts[]) {
    struct iovec first[TEXTS];
    size_t count = 0;
    for (size_t i = 0;; i++) {
        bool page_begins = i == 0 || (uintptr_t)&texts[i] % PW_PAGE == 0;
        if (page_begins && fault(&(struct iovec){(void *)(uintptr_t)&texts[i], 1}, 1)) {
            return false;
        }
        if (!texts[i] || count == TEXTS) {
            if (count && fault(first, count)) {
                return false;
            }
            count = 0;
        }
        if (!texts[i]) {
            return true;
        }
        first[count++] = (struct iovec){texts[i], 1};
    }
}

// --- the reader of /proc/self/maps ----------------------------------------------

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

// True: a line was the last that is wanted. `has_any`: some have been read.
static bool read_lines(const char *path, struct reading *reading, bool *has_any) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    while (fd >= 0 && !found) {
        ssize_t got = read(fd, reading->text + reading->held, reading->size - 1 - reading->held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        *has_any = true;
        reading->held += (size_t)got;
        found = see_lines(reading);
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

bool pw_os_each_line(bool (*see)(void *context, const struct pw_os_line *line), void *context,
                     char *text, size_t size) {
    struct reading reading = {.see = see, .context = context, .text = text, .size = size};
    int saved = errno;
    bool has_any = PW_OS_FAULT(PW_POINT_MAPS) != 0;
    bool found = !has_any && read_lines("/proc/self/maps", &reading, &has_any);
    if (!has_any) { // the process's first thread has ended
        found = read_lines("/proc/thread-self/maps", &reading, &has_any);
    }
    errno = saved;
    return found;
}
