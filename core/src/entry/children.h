// SPDX-License-Identifier: MIT
//
// Programs that this one starts inherit LD_PRELOAD. Some cannot bear a library of ours
// (os/program.h says which), and the small tools of scripts gain nothing by one: those are started
// without it. Safe in a child of vfork and in a signal handler.
#ifndef PW_ENTRY_CHILDREN_H
#define PW_ENTRY_CHILDREN_H

#include "pagewise.h"

// Is a library of ours in the LD_PRELOAD of this environment, so that the questions below matter?
PW_API bool pw_children_are_preloaded(char *const environment[]);

// Is the program to be started without it? By path; by name, as execvp looks for it; by file.
PW_API bool pw_children_go_without(int folder, const char *path, char *const environment[]);
PW_API bool pw_children_named_go_without(const char *name, char *const environment[]);
PW_API bool pw_children_file_goes_without(int fd, char *const environment[]);

// The environment without our libraries: pointers to `kept`, which has room for all of them and the
// last NULL, and what is left of LD_PRELOAD to `preload`. False: it is too long.
#define PW_CHILDREN_PRELOAD 1024
PW_API bool pw_children_without(char *const environment[], char *kept[],
                                char preload[PW_CHILDREN_PRELOAD]);

// Pages for so many pointers; NULL: a child of vfork, or there are none.
PW_API char **pw_children_room(size_t count);
PW_API void pw_children_leave_room(char **room, size_t count);

#endif
