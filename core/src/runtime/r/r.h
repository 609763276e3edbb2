// SPDX-License-Identifier: MIT
//
// What is known of R: its modules, how its collector announces itself, and how it is asked to
// collect.
#ifndef PW_RUNTIME_R_R_H
#define PW_RUNTIME_R_R_H

#include "process/caller.h"
#include "process/state.h"

#include <stdbool.h>

struct pw_process;

// Of a module's file: R itself, the library of a package, or neither.
enum pw_module pw_r_module_of_path(const char *path);

// Once every module is loaded: is this R? Its allocator of vectors is found then, and the collector
// told to announce itself, where that is of use.
bool pw_r_find(struct pw_process *process, bool is_start);

// A collection of R's begins, or ends. Allocates nothing.
void pw_r_release_if_due(struct pw_process *process);

#endif
