// SPDX-License-Identifier: MIT
//
// On and off. pw_start (pagewise.h) is the first of them in a process.
#ifndef PW_ENTRY_SWITCH_H
#define PW_ENTRY_SWITCH_H

#include "pagewise.h"

// Serve blocks by `options` from now on, whatever was so far. NULL, or why not: nothing is changed
// then.
const char *pw_heap_switch_on(const char *options);

// Serve no more blocks. Those that live stay valid, and no free pages are kept.
void pw_heap_switch_off(void);

// Every module is loaded: find the runtime of a language, and serve it as it wants. Where it is R,
// its vectors are served from two pages on, if no threshold was asked for. `is_start`: of the
// program (runtime.h).
PW_API void pw_serve_runtime(bool is_start);

#endif
