// SPDX-License-Identifier: MIT
//
// Runtimes of languages. What all of them have is a table of functions here; a language is a folder
// of this room and an entry of the table.
#ifndef PW_RUNTIME_RUNTIME_H
#define PW_RUNTIME_RUNTIME_H

#include "process/caller.h"
#include "process/state.h"

#include <stdbool.h>

// Of a module's file, whatever the user trusts.
enum pw_module pw_module_of_path(const char *path);

// Is it who loads a runtime's modules, by absolute path?
bool pw_module_loads(const char *path);

// Who calls from `site`. Takes the dynamic loader's lock (os/module.h): before the process's.
struct pw_caller pw_caller_at(struct pw_process *process, const void *site);

// Once every module is loaded: is a runtime that we know in this process? It says so in
// process->serves_..., and is told what it is to announce. At a program's start only what it is
// linked to can be there, and nothing is searched in vain: the program would learn of the error by
// its first dlerror(), or free it within its first dlsym().
bool pw_runtime_find(struct pw_process *process, bool is_start);

#endif
