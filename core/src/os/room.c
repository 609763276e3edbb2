// SPDX-License-Identifier: MIT
//
// How much memory is left before this process, or one beside it, has to swap or is killed: what the
// kernel calls available, or what the limits of the memory cgroups leave, whichever is less.
//
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; proc_meminfo(5).

#include "os/fault.h"
#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_PATH 1024

// What one version of cgroups calls its files.
struct controller {
    const char *mount;
    const char *limits[2], *usage;
    const char *swap_limit, *swap_usage; // version 1 counts memory and swap together
    const char *cache; // in memory.stat: file pages that are dropped before anything is swapped
};

static const struct controller version_1 = {
    "/sys/fs/cgroup/memory",       {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes",
    "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes",   "\ntotal_inactive_file ",
};
static const struct controller version_2 = {
    "/sys/fs/cgroup",  {"memory.max", "memory.high"}, "memory.current",
    "memory.swap.max", "memory.swap.current",         "\ninactive_file ",
};

static uint64_t smaller(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

// The number behind `name` (at the start for NULL); `missing` if there is none, as in "max".
static uint64_t number_in(const char *text, const char *name, uint64_t missing) {
    const char *found = name ? strstr(text, name) : text;
    unsigned long long number = 0;
    bool read = found && sscanf(found + (name ? strlen(name) : 0), "%llu", &number) == 1;
    return read ? number : missing;
}

static uint64_t read_number(const char *folder, const char *file, const char *name,
                            uint64_t missing) {
    char path[3 * LONGEST_PATH], text[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (length < 0 || (size_t)length >= sizeof path) {
        return missing;
    }
    return pw_os_read_text(path, text, sizeof text) > 0 ? number_in(text, name, missing) : missing;
}

static struct pw_os_room narrower(struct pw_os_room one, struct pw_os_room other) {
    return (struct pw_os_room){smaller(one.memory, other.memory), smaller(one.swap, other.swap)};
}

// Version 1 writes its largest number for none.
static bool is_unlimited(uint64_t limit) {
    return limit >= INT64_MAX / 2;
}

static uint64_t swap_in(const struct controller *controller, const char *folder) {
    uint64_t limit = read_number(folder, controller->swap_limit, NULL, UINT64_MAX);
    if (is_unlimited(limit)) {
        return UINT64_MAX;
    }
    uint64_t used = read_number(folder, controller->swap_usage, NULL, 0);
    return limit > used ? limit - used : 0;
}

static uint64_t memory_in(const struct controller *controller, const char *folder) {
    uint64_t limit = UINT64_MAX;
    for (int i = 0; i < 2 && controller->limits[i]; i++) {
        limit = smaller(limit, read_number(folder, controller->limits[i], NULL, UINT64_MAX));
    }
    if (is_unlimited(limit)) {
        return UINT64_MAX;
    }
    uint64_t used = read_number(folder, controller->usage, NULL, 0);
    uint64_t cache = smaller(used, read_number(folder, "memory.stat", controller->cache, 0));
    return limit > used - cache ? limit - (used - cache) : 0;
}

// What the group and those above it leave of `room`. In a container the path may be the host's; the
// mount is ours then. Where there is no swap, no limit of it is read.
static struct pw_os_room room_in_groups(const struct controller *controller, char *path,
                                        struct pw_os_room room) {
    char folder[2 * LONGEST_PATH];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", controller->mount, path);
        uint64_t swap = room.swap ? swap_in(controller, folder) : 0;
        room = narrower(room, (struct pw_os_room){memory_in(controller, folder), swap});
        char *last = strrchr(path, '/');
        if (!last) {
            return room;
        }
        *last = 0;
    }
}

// A line of /proc/self/cgroup is number:controllers:path.
static struct pw_os_room room_of_own_group(struct pw_os_room room) {
    char text[4096], path[LONGEST_PATH];
    if (pw_os_read_text("/proc/self/cgroup", text, sizeof text) <= 0) {
        return room;
    }
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = 0;
        }
        char *slash = strchr(line, '/');
        bool unified = !strncmp(line, "0::", 3);
        if (slash && strlen(slash) < sizeof path && (unified || strstr(line, ":memory:"))) {
            strcpy(path, strcmp(slash, "/") ? slash : "");
            room = room_in_groups(unified ? &version_2 : &version_1, path, room);
        }
    }
    return room;
}

struct pw_os_room pw_os_memory_room(void) {
    int saved = errno;
    char text[4096];
    struct pw_os_room room = {UINT64_MAX, UINT64_MAX};
    if (PW_OS_FAULT(PW_POINT_ROOM)) {
        return (struct pw_os_room){0, 0};
    }
    if (pw_os_read_text("/proc/meminfo", text, sizeof text) > 0) {
        room.memory = number_in(text, "\nMemAvailable:", UINT64_MAX >> 10) << 10;
        room.swap = number_in(text, "\nSwapFree:", UINT64_MAX >> 10) << 10;
    }
    room = room_of_own_group(room);
    errno = saved;
    return room;
}
