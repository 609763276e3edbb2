// SPDX-License-Identifier: MIT
//
// What is known of Python: the modules of NumPy and of what is built on it.
//
// NumPy's arrays are blocks of malloc, since 2.5 through the interpreter, and a copy of a whole
// array is one memmove. Memory of arrays may be pinned by libraries of devices (CUDA, RDMA) all the
// same; so a copy shares pages only while no such library is loaded (quiet.h), even where nothing
// has to be published.
//
// Not known, by what they do: pyarrow and polars have allocators of their own, whose blocks never
// come to us; torch and cupy pin memory by themselves.
#ifndef PW_RUNTIME_PYTHON_PYTHON_H
#define PW_RUNTIME_PYTHON_PYTHON_H

#include "process/caller.h"
#include "process/state.h"

#include <stdbool.h>
#include <stddef.h>

// Of a module's file: the interpreter or NumPy's arrays, a library that works on them, or neither.
enum pw_module pw_python_module_of_path(const char *path);

// Is it an interpreter, which loads the others?
bool pw_python_loads(const char *path);

// Is an interpreter of Python linked to this program? Without dlsym(): of a name that is not found
// the program would learn by its first dlerror().
bool pw_python_is_linked(void);

// Once every module is loaded: is this Python, and a worker? Asks pyarrow's jemalloc, which is
// loaded later, by its environment variable to start no thread.
bool pw_python_find(struct pw_process *process, bool is_start);

// Is a command line, of words that each end in NUL, one by which loky starts its workers, the pool
// of joblib and so of scikit-learn? Those of multiprocessing are not told: what they run is any
// program's own, and single copies that they keep are worth sharing.
bool pw_python_is_worker(const char *words, size_t size);

// Are there threads of Python's beside the caller's? Any may be in a BLAS just now. Where there is
// no Python: false. To be called with the interpreter's lock.
bool pw_python_has_other_threads(void);

#endif
