// SPDX-License-Identifier: MIT
//
// The spool: what the recorder leaves behind for `pagewise trace record` to turn into a trace. It
// is private to the two, and versioned: trace/analysis/src/spool.rs reads it.
//
// One file a process, SPOOL/PID.N (N counts the programs that the process has executed): a header
// of one page, then chunks that begin at multiples of PW_SPOOL_STEP. A chunk belongs to one lane; a
// lane to one thread at a time. A lane's records are in the order of their stamps. All words are 64
// bits in the machine's byte order; memory that was never written reads zero, and a zero word ends
// a chunk's records.
//
//   allocate   bits 0-1 = 1, 2-31 stamp - the lane's last stamp, 32-63 size (all ones: in a third
//              word);
//              second word: bits 0-47 address, 48-57 slot, 58-63 logarithm of the alignment
//              asked for, 0 where none was
//   free       bits 0-1 = 2, 2-15 stamp - the lane's last stamp, 16-63 address, which is even; bit
//              16 is 1 where a realloc frees it: the lane's next allocation is what it becomes
//   other      bits 0-1 = 3, 2-7 kind, 8-31 number of words that follow, 32-63 operand:
//     TIME     one word: the lane's stamp
//     SITE     operand = slot, and above its ten bits the load; one word: bits 0-47 return address,
//              48-63 stack depth: from now on allocations with this slot come from there
//     STACK    operand = slot; a word for each frame, innermost first: bits 0-47 return address,
//              48-63 load
//     MODULE   operand = length of the build id (bytes); words: first address, end, load bias,
//              load, then build id and path, the path ended by NUL
//     THREAD   one word: the number of the thread that writes from now on: the kernel's, or one
//              above 2^31 where the kernel could not be asked
//
// A load is a module that was loaded, from 1: addresses alone do not tell which one, as another may
// be loaded where an unloaded one was. 0: none is known. (Version 1 had no loads: a module's stamp
// was in its place, slots had no more than ten bits and stacks no more than addresses. Before
// version 3 stacks had at most 64 frames; now it is 256.)
#ifndef PW_RECORD_SPOOL_H
#define PW_RECORD_SPOOL_H

#include <stdint.h>

#define PW_SPOOL_MAGIC   UINT64_C(0x314c4f4f50535750) // "PWSPOOL1"
#define PW_CHUNK_MAGIC   UINT64_C(0x314b4e5548435750) // "PWCHUNK1"
#define PW_SPOOL_VERSION 3
#define PW_SPOOL_STEP    (64 << 10)
#define PW_SPOOL_SLOTS   1024 // slots of a lane for the sites it has used last
#define PW_SPOOL_LOAD_AT 10   // bit of a site's operand
#define PW_SPOOL_LOADS   UINT16_MAX

#define PW_SPOOL_ALLOCATOR 512
#define PW_SPOOL_SETTINGS  256

enum pw_spool_word { PW_WORD_ALLOCATE = 1, PW_WORD_FREE = 2, PW_WORD_OTHER = 3 };
enum pw_spool_kind {
    PW_KIND_TIME = 1,
    PW_KIND_SITE = 2,
    PW_KIND_STACK = 3,
    PW_KIND_MODULE = 4,
    PW_KIND_THREAD = 5
};

// Why recording ended before the program did.
enum pw_spool_stop {
    PW_STOP_NONE,
    PW_STOP_NO_ROOM,   // disk full, or a limit on the size of files
    PW_STOP_NO_FILE,   // the spool cannot be reached any more
    PW_STOP_NO_MEMORY, // no address space for buffers
    PW_STOP_STRICT,    // seccomp's strict mode, and what was mapped before is full
    PW_STOP_FILTER,    // likewise a filter; `error` is the system call that it denies
};

// What a site is.
enum pw_spool_stacks {
    PW_STACKS_NONE, // a return address and a depth
    PW_STACKS_BY_FRAME_POINTERS,
    PW_STACKS_BY_TABLES,
};

struct pw_spool_header {
    uint64_t magic;
    uint32_t version;
    uint32_t stop; // enum pw_spool_stop
    uint32_t pid;
    uint32_t parent;
    uint64_t sample_bytes; // 0: everything is recorded
    uint32_t stacks;       // enum pw_spool_stacks
    uint32_t error;        // errno behind `stop`, if not said otherwise there
    uint64_t start_stamp, start_ns, start_real_ns;
    uint64_t end_stamp, end_ns; // latest known pair, to tell how long a tick is
    uint64_t dropped_allocations, dropped_frees;
    uint64_t ended; // 1: the process came to its ordinary end
    char program[1024];
    char command[2048];     // arguments, each ended by NUL
    uint64_t lost_modules;  // sites whose module has no load: there were too many
    uint64_t lost_children; // forks that could not begin a recording of their own
    // Empty before there were any. The file of the malloc behind the recorder, and the variables
    // that such libraries read, each ended by NUL.
    char allocator[PW_SPOOL_ALLOCATOR];
    char settings[PW_SPOOL_SETTINGS];
};

struct pw_spool_chunk {
    uint64_t magic;
    uint64_t size; // of the whole chunk, bytes
    uint32_t lane;
    uint32_t sequence; // of the lane's chunks, from 0
    uint64_t stamp;    // the lane's stamp before the first record
    uint64_t unused[4];
};

_Static_assert(sizeof(struct pw_spool_header) <= 4096, "a page");
_Static_assert(sizeof(struct pw_spool_chunk) == 64, "no padding");

#endif
