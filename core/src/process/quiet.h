// SPDX-License-Identifier: MIT
//
// quiet: could anybody but the caller be writing to the program's memory now?
//
// Publishing and zero reclaim replace pages under a program. Between reading a page and replacing
// it, a store of somebody else's would be lost. So they happen only when nobody else can make one,
// and this is the one place that knows. In doubt the answer is no, and a copy is a copy.
//
// All threads of the process are counted (the links of /proc/self/task, raw clones among them).
// Each must be the caller, ours, or of a pool that is known to have no work:
//
//  - OpenBLAS and BLIS run on their threads only what a thread hands over that calls them and
//  waits.
//    They have no work unless the caller is in them: then the copy is theirs, or a signal handler
//    has interrupted them, and a signal is blocked.
//  - libgomp's threads work in parallel regions and for teams; the runtime tells whether the caller
//    is in one. Tasks are done when a region ends.
//  - The timers of R's packages cli and later count, and write a byte to a pipe. Other threads of
//    later's wait for files, and write what they find.
//  - The thread of pyarrow's jemalloc gives free memory of that jemalloc back to the kernel.
//
// These are told by the library that calls pthread_create. Their threads block all signals that can
// wait: a handler that runs in an idle thread writes as well. Not known, and so never quiet: pools
// of TBB, of std::thread and of other OpenMP runtimes, whose tasks may outlive the call that made
// them.
//
// What writes without a thread ends publishing for good where it is seen: rings of io_uring, aio
// contexts, devices (RDMA, GPUs), and children that share our memory (clone with CLONE_VM). They
// are seen by the functions of the C library, and by the libraries that programs use them with.
// Made by a system call of the program's own they are not seen; nor is another process that writes
// to our memory (process_vm_writev, a debugger).
#ifndef PW_PROCESS_QUIET_H
#define PW_PROCESS_QUIET_H

#include "os/os.h"
#include "pagewise.h"
#include "process/caller.h"
#include "process/earlier.h"

#include <pthread.h>

#define PW_OPENMP_RUNTIMES 4u // copies of libgomp in one process

// A copy of libgomp, and how many threads of its pools there are.
struct pw_openmp {
    const void *module;
    int (*level)(void);     // parallel regions around the caller
    int (*num_teams)(void); // more than one in a teams region
    unsigned threads;
};

struct pw_quiet {
    unsigned own;    // the keeper: works under the lock, on free pages
    unsigned timers; // of packages cli and later
    unsigned blas;
    struct pw_openmp openmp[PW_OPENMP_RUNTIMES];
    struct pw_earlier earlier[PW_EARLIER_THREADS]; // known, and there before the hooks
    unsigned changes;                              // of these counts
    bool forks_quietly;                            // a fork has begun while all was quiet
    bool loader_is_lost;                           // a thread that is gone may hold its lock
    bool others_write;                             // without a thread of this process; for good
    bool had_others;          // a thread that is not known was started through us; for good
    unsigned long long loads; // of modules, when they were last looked through
};

// Look for libraries that have the kernel write to memory, before the heap's lock is taken: it
// takes the dynamic loader's. Without it the answer below is no.
void pw_quiet_look(struct pw_caller *caller);

// Nobody but the caller can write to the program's memory until it returns, or lets somebody. Asked
// under the heap's lock.
bool pw_is_quiet(const struct pw_caller *caller);

// Somebody who is no thread of this process may write to its memory from now on.
PW_API void pw_quiet_others_write(void);

// clone(2) is about to be called with these flags: a child that is none of our threads may share
// our memory, and waits for nobody but after vfork.
PW_API void pw_quiet_clones(unsigned long flags);

// A thread of ours, or one of a pool, counts itself when it runs, and no longer when it is about to
// end, so that it never stands for another one. `threads`: where; `change`: 1 or -1.
void pw_quiet_count(unsigned *threads, int change);

// The calling thread is one of a pool for good: its own copies are those of work that was handed
// over.
void pw_quiet_in_pool(void);

// Before a fork, under the lock, and after it in the parent; and in a child, which
// has one thread. A thread of the parent's may have held the dynamic loader's lock then, for ever:
// such a child does not look, and so publishes nothing. After a fork without handlers nobody knows,
// and the first look may come before the child has noticed that it is one.
void pw_quiet_before_fork(void);
void pw_quiet_after_fork_parent(void);
void pw_quiet_after_fork(void);

#endif
