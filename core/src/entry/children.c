// SPDX-License-Identifier: MIT
#include "entry/children.h"
#include "os/os.h"
#include "os/program.h"
#include "process/state.h"

#include <string.h>

#define VARIABLE   "LD_PRELOAD="
#define SEPARATORS " :"
#define NAME_SIZE  512 // longer paths are none of ours

static const char *const own_names[] = {"libpagewise-preload.so", "libpagewise-general.so"};

// Where a system has its own tools, and those of them that scripts start most. They end at once,
// keep no memory and start no other program (but sed by its command e): to load us is a third of a
// millisecond for nothing.
static const char *const tool_folders[] = {"/usr/bin/", "/bin/"};
static const char *const brief_tools[] = {
    "basename", "chmod", "cut",   "date",   "dirname", "echo", "expr",  "head",
    "ln",       "ls",    "mkdir", "mktemp", "pwd",     "rm",   "rmdir", "readlink",
    "sed",      "tail",  "touch", "tr",     "uname",   "wc"};

// --- LD_PRELOAD ----------------------------------------------------------------

struct entry {
    const char *start;
    size_t length;
};

// The next one of the list, which moves on. False: there is no more.
static bool next_entry(const char **list, struct entry *entry) {
    *list += strspn(*list, SEPARATORS);
    *entry = (struct entry){*list, strcspn(*list, SEPARATORS)};
    *list += entry->length;
    return entry->length > 0;
}

static bool is_own(const struct entry *entry) {
    for (size_t i = 0; i < sizeof own_names / sizeof *own_names; i++) {
        size_t length = strlen(own_names[i]);
        if (entry->length >= length &&
            strncmp(entry->start + entry->length - length, own_names[i], length) == 0) {
            return true;
        }
    }
    return false;
}

// Of several the loader takes the last.
static const char *list_of(char *const environment[]) {
    const char *list = NULL;
    for (size_t i = 0; environment && environment[i]; i++) {
        if (strncmp(environment[i], VARIABLE, strlen(VARIABLE)) == 0) {
            list = environment[i] + strlen(VARIABLE);
        }
    }
    return list;
}

// Under a filter that may end the process no file is looked at.
bool pw_children_are_preloaded(char *const environment[]) {
    if (__atomic_load_n(&pw_process.sealed, __ATOMIC_RELAXED) || !environment ||
        !pw_os_texts_are_there(environment)) { // the kernel will say so
        return false;
    }
    const char *list = list_of(environment);
    struct entry entry;
    while (list && next_entry(&list, &entry)) {
        if (is_own(&entry)) {
            return true;
        }
    }
    return false;
}

// A sanitizer stands beside ours, or ours is not to be found where the program is started (chroot).
static bool list_is_unfit(char *const environment[]) {
    const char *list = list_of(environment);
    struct entry entry;
    while (list && next_entry(&list, &entry)) {
        char path[NAME_SIZE];
        if (entry.length >= sizeof path) {
            continue;
        }
        memcpy(path, entry.start, entry.length);
        path[entry.length] = 0;
        const char *slash = strrchr(path, '/');
        bool unfit = is_own(&entry) ? slash && !pw_os_exists(path)
                                    : pw_os_is_sanitizer(slash ? slash + 1 : path);
        if (unfit) {
            return true;
        }
    }
    return false;
}

// --- the programs ----------------------------------------------------------------

// The kernel says so of what is not.
static bool is_there(const char *path) {
    char *const texts[] = {(char *)(uintptr_t)path, NULL};
    return pw_os_texts_are_there(texts);
}

static const char *behind(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 ? path + length : NULL;
}

static bool is_brief_tool(const char *path) {
    const char *name = NULL;
    for (size_t i = 0; !name && i < sizeof tool_folders / sizeof *tool_folders; i++) {
        name = behind(path, tool_folders[i]);
    }
    for (size_t i = 0; name && i < sizeof brief_tools / sizeof *brief_tools; i++) {
        if (strcmp(name, brief_tools[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool count(bool cannot) {
    if (cannot && pw_process.stats.block) {
        PW_COUNT(&pw_process.stats, programs_left_plain, 1);
    }
    return cannot;
}

bool pw_children_go_without(int folder, const char *path, char *const environment[]) {
    if (!pw_children_are_preloaded(environment) || !is_there(path)) {
        return false;
    }
    if (!path || !*path) { // AT_EMPTY_PATH: the folder is the file
        return pw_children_file_goes_without(folder, environment);
    }
    return is_brief_tool(path) || count(list_is_unfit(environment) ||
                                        !pw_os_program_at_bears(folder, path, &pw_process.loader));
}

bool pw_children_named_go_without(const char *name, char *const environment[]) {
    return pw_children_are_preloaded(environment) &&
           count(list_is_unfit(environment) ||
                 !pw_os_program_named_bears(name, &pw_process.loader));
}

bool pw_children_file_goes_without(int fd, char *const environment[]) {
    return pw_children_are_preloaded(environment) &&
           count(list_is_unfit(environment) || !pw_os_program_bears(fd, &pw_process.loader));
}

// --- the environment ---------------------------------------------------------------

char **pw_children_room(size_t count) {
    // What a child of vfork maps stays with its parent.
    return pw_os_pid() == pw_process.pid ? pw_os_map_table(count * sizeof(char *)) : NULL;
}

void pw_children_leave_room(char **room, size_t count) {
    if (room) {
        pw_os_unmap(room, count * sizeof *room);
    }
}

// LD_PRELOAD without ours. False: it is too long.
static bool write_rest(const char *list, char rest[PW_CHILDREN_PRELOAD], bool *any) {
    size_t used = strlen(VARIABLE);
    struct entry entry;
    memcpy(rest, VARIABLE, used);
    *any = false;
    while (next_entry(&list, &entry)) {
        if (is_own(&entry)) {
            continue;
        }
        if (used + 1 + entry.length + 1 > PW_CHILDREN_PRELOAD) {
            return false;
        }
        if (*any) {
            rest[used++] = ':';
        }
        memcpy(rest + used, entry.start, entry.length);
        used += entry.length;
        *any = true;
    }
    rest[used] = 0;
    return true;
}

bool pw_children_without(char *const environment[], char *kept[],
                         char preload[PW_CHILDREN_PRELOAD]) {
    size_t count = 0;
    bool any = false;
    const char *list = list_of(environment);
    if (!list || !write_rest(list, preload, &any)) {
        return false;
    }
    for (size_t i = 0; environment[i]; i++) {
        if (strncmp(environment[i], VARIABLE, strlen(VARIABLE)) != 0) {
            kept[count++] = environment[i];
        } else if (any) {
            kept[count++] = preload;
            any = false;
        }
    }
    kept[count] = NULL;
    return true;
}
