// SPDX-License-Identifier: MIT
//
// exchange: objects that processes of one user share through sealed memory files. The functions are
// public (pagewise.h, "Objects shared between processes"); this is what lies in the file and in a
// handle. Both are read with suspicion: a handle may come from a file that somebody made up.
#ifndef PW_SHARE_EXCHANGE_H
#define PW_SHARE_EXCHANGE_H

#include "pagewise.h"

#define PW_EXCHANGE_LAYOUT 1u
#define PW_EXCHANGE_ORDER  0x01020304u // reads otherwise where bytes are ordered otherwise

// Of one part of an object. Its check is over the bytes before it.
struct pw_exchange_handle {
    char magic[4]; // "PWSH"
    uint32_t layout, order;
    uint32_t runtime; // the caller's word for what can read the parts
    uint32_t user;
    uint32_t part;
    uint64_t boot;
    uint8_t token[16]; // random: names the object
    uint32_t maker_pid;
    int32_t maker_fd;
    uint32_t sender_pid; // who wrote the handle, and has the object as well
    int32_t sender_fd;
    uint64_t size; // of the file
    uint64_t check;
};

_Static_assert(sizeof(struct pw_exchange_handle) == PW_SHARED_HANDLE_SIZE, "handle");

// The first page of the file. Parts follow on pages of their own, then their table.
struct pw_exchange_header {
    char magic[8]; // "PWSHARED"
    uint32_t layout, order, runtime, user;
    uint32_t parts;
    int32_t maker_fd;
    uint32_t maker_pid;
    uint32_t reserved;
    uint64_t table; // offset of that many struct pw_shared_part
    uint64_t size;
    uint8_t token[16];
    uint64_t check;
};

#endif
