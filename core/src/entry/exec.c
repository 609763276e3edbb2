// SPDX-License-Identifier: MIT
//
// Part of each library that is preloaded: the functions that start programs, which leave us out
// where a program cannot bear us or gains nothing (children.h). What goes past them is a raw system
// call.
//
// They may be called in a child of vfork, whose memory is its parent's, and in a signal handler:
// nothing is allocated, and all that is written is the stack. Elsewhere a long environment goes to
// pages of its own: the stack of a thread may be small.
#include "entry/children.h"
#include "process/c_library.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

extern char **environ;

#define MOST_VARIABLES 16384 // 128 KB
#define FEW_VARIABLES  512   // on any stack

// --- the C library's -----------------------------------------------------------

// As the C library does: the strings are not changed.
typedef char *const *strings;

static struct {
    int (*execve)(const char *, strings, strings);
    int (*execvpe)(const char *, strings, strings);
    int (*fexecve)(int, strings, strings);
    int (*execveat)(int, const char *, strings, strings, int);
    int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, strings, strings);
    int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                        const posix_spawnattr_t *, strings, strings);
} next;

#define FIND(name) next.name = (__typeof__(next.name))pw_find_next(#name)

// Before any handler or child needs them.
__attribute__((constructor)) static void find_all(void) {
    FIND(execve);
    FIND(execvpe);
    FIND(fexecve);
    FIND(execveat);
    FIND(posix_spawn);
    FIND(posix_spawnp);
}

#define FIND_LATE(name, missing)                                                                   \
    do {                                                                                           \
        if (!next.name) {                                                                          \
            FIND(name);                                                                            \
        }                                                                                          \
        if (!next.name) {                                                                          \
            return missing;                                                                        \
        }                                                                                          \
    } while (0)
#define MISSING (errno = ENOSYS, -1)

// --- the environment -------------------------------------------------------------

static size_t count_of(strings list) {
    size_t count = 0;
    while (list && list[count]) {
        count++;
    }
    return count;
}

// Calls `START` with `environment`, or where `WITHOUT` is true with one that does not name us.
#define START_WITH(WITHOUT, START)                                                                 \
    do {                                                                                           \
        size_t count = (WITHOUT) ? count_of(environment) : 0;                                      \
        if (count > 0 && count <= MOST_VARIABLES) {                                                \
            char **pages = count > FEW_VARIABLES ? pw_children_room(count + 1) : NULL;             \
            char *here[pages ? 1 : count + 1], preload[PW_CHILDREN_PRELOAD];                       \
            char **kept = pages ? pages : here;                                                    \
            if (pw_children_without(environment, kept, preload)) {                                 \
                environment = kept;                                                                \
            }                                                                                      \
            int result = START;                                                                    \
            pw_children_leave_room(pages, count + 1);                                              \
            return result;                                                                         \
        }                                                                                          \
        return START;                                                                              \
    } while (0)

// --- exec ------------------------------------------------------------------------

PW_API int execve(const char *path, char *const arguments[], char *const environment[]) {
    FIND_LATE(execve, MISSING);
    START_WITH(pw_children_go_without(AT_FDCWD, path, environment),
               next.execve(path, arguments, environment));
}

PW_API int execv(const char *path, char *const arguments[]) {
    return execve(path, arguments, environ);
}

PW_API int execvpe(const char *name, char *const arguments[], char *const environment[]) {
    FIND_LATE(execvpe, MISSING);
    START_WITH(pw_children_named_go_without(name, environment),
               next.execvpe(name, arguments, environment));
}

PW_API int execvp(const char *name, char *const arguments[]) {
    return execvpe(name, arguments, environ);
}

PW_API int fexecve(int fd, char *const arguments[], char *const environment[]) {
    FIND_LATE(fexecve, MISSING);
    START_WITH(pw_children_file_goes_without(fd, environment),
               next.fexecve(fd, arguments, environment));
}

PW_API int execveat(int folder, const char *path, char *const arguments[],
                    char *const environment[], int flags) {
    FIND_LATE(execveat, MISSING);
    START_WITH(pw_children_go_without(folder, path, environment),
               next.execveat(folder, path, arguments, environment, flags));
}

// The arguments up to NULL. An array of them all lies on the stack, as in the C library.
#define COUNT_ARGUMENTS(first)                                                                     \
    size_t argument_count = 1;                                                                     \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    while (va_arg(list, const char *)) {                                                           \
        argument_count++;                                                                          \
    }                                                                                              \
    va_end(list)

#define TAKE_ARGUMENTS(first)                                                                      \
    char *arguments[argument_count + 1];                                                           \
    arguments[0] = (char *)(uintptr_t)(first);                                                     \
    va_start(list, first);                                                                         \
    for (size_t i = 1; i <= argument_count; i++) {                                                 \
        arguments[i] = va_arg(list, char *);                                                       \
    }

PW_API int execl(const char *path, const char *first, ...) {
    COUNT_ARGUMENTS(first);
    TAKE_ARGUMENTS(first);
    va_end(list);
    return execve(path, arguments, environ);
}

PW_API int execlp(const char *name, const char *first, ...) {
    COUNT_ARGUMENTS(first);
    TAKE_ARGUMENTS(first);
    va_end(list);
    return execvpe(name, arguments, environ);
}

PW_API int execle(const char *path, const char *first, ...) {
    COUNT_ARGUMENTS(first);
    TAKE_ARGUMENTS(first);
    char **environment = va_arg(list, char **);
    va_end(list);
    return execve(path, arguments, environment);
}

// --- spawn -----------------------------------------------------------------------

PW_API int posix_spawn(pid_t *restrict child, const char *restrict path,
                       const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *restrict attributes,
                       char *const arguments[restrict], char *const environment[restrict]) {
    FIND_LATE(posix_spawn, ENOSYS);
    START_WITH(pw_children_go_without(AT_FDCWD, path, environment),
               next.posix_spawn(child, path, actions, attributes, arguments, environment));
}

PW_API int posix_spawnp(pid_t *restrict child, const char *restrict name,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *restrict attributes,
                        char *const arguments[restrict], char *const environment[restrict]) {
    FIND_LATE(posix_spawnp, ENOSYS);
    START_WITH(pw_children_named_go_without(name, environment),
               next.posix_spawnp(child, name, actions, attributes, arguments, environment));
}
