// SPDX-License-Identifier: MIT
//
// A shared object lives as long as any process has its file open: the kernel frees the file with
// the last descriptor and mapping, however their process ends, and it never had a name in a file
// system.
#include "share/exchange.h"

#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HANDLE_MAGIC "PWSH"
#define HEADER_MAGIC "PWSHARED"
#define NAME_SIZE    64

static uint64_t checksum(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t sum = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

#define CHECK_OF(item) checksum(item, offsetof(__typeof__(*(item)), check))

static void name_of(const uint8_t token[16], char name[NAME_SIZE]) {
    int at = snprintf(name, NAME_SIZE, "pagewise-shared-");
    for (int i = 0; i < 16; i++) {
        at += snprintf(name + at, NAME_SIZE - (size_t)at, "%02x", token[i]);
    }
}

static struct pw_os_file file_of(const struct pw_shared *shared) {
    return (struct pw_os_file){
        .fd = shared->fd, .device = (dev_t)shared->device, .inode = (ino_t)shared->inode};
}

static void keep_file(struct pw_shared *shared, const struct pw_os_file *file) {
    shared->fd = file->fd;
    shared->device = (uint64_t)file->device;
    shared->inode = (uint64_t)file->inode;
}

void pw_shared_close(struct pw_shared *shared) {
    struct pw_os_file file = file_of(shared);
    pw_os_close(&file);
    shared->fd = -1;
}

// A program may ask for more objects than there are numbers. Some are left for its files.
static void leave_room(struct pw_os_file *file) {
    if (file->fd >= 0 && !pw_os_leaves_room(file)) {
        pw_os_close(file);
    }
}

// --- making ------------------------------------------------------------------

enum pw_shared_result pw_shared_begin(struct pw_shared *shared, uint32_t runtime) {
    char name[NAME_SIZE];
    bool limited;
    *shared = (struct pw_shared){.fd = -1, .runtime = runtime, .size = PW_PAGE};
    if (!pw_os_pages_fit()) {
        return PW_SHARED_PAGES;
    }
    // Its handles will need the machine's name, when there may be no descriptor to read it with.
    if (pw_os_boot_name() == 0 || !pw_os_random_bytes(shared->token, sizeof shared->token)) {
        return PW_SHARED_LIMIT;
    }
    name_of(shared->token, name);
    struct pw_os_file file = pw_os_sealable_file(name, &limited);
    leave_room(&file);
    if (file.fd < 0) {
        return PW_SHARED_LIMIT;
    }
    keep_file(shared, &file);
    shared->maker_pid = (uint32_t)pw_os_pid();
    shared->maker_fd = file.fd;
    return PW_SHARED_OK;
}

uint64_t pw_shared_next_page(struct pw_shared *shared) {
    shared->size = (shared->size + PW_PAGE - 1) & ~(uint64_t)(PW_PAGE - 1);
    return shared->size;
}

static enum pw_shared_result write_at(const struct pw_shared *shared, const void *from, size_t size,
                                      uint64_t offset) {
    struct pw_os_file file = file_of(shared);
    bool written = pw_os_is_ours(&file) && pw_os_may_write(offset + size) &&
                   pw_os_write(file.fd, from, size, offset);
    return written ? PW_SHARED_OK : PW_SHARED_MEMORY;
}

enum pw_shared_result pw_shared_write(struct pw_shared *shared, const void *from, size_t size) {
    enum pw_shared_result result = write_at(shared, from, size, shared->size);
    shared->size += result == PW_SHARED_OK ? size : 0;
    return result;
}

// The end of the file is the end of a page, so that no view reaches beyond it.
static enum pw_shared_result write_table(struct pw_shared *shared, struct pw_shared_part *parts,
                                         uint32_t count) {
    static const char last = 0;
    size_t size = count * sizeof *parts;
    for (uint32_t i = 0; i < count; i++) {
        parts[i].check = (uint32_t)CHECK_OF(&parts[i]);
    }
    shared->table = pw_shared_next_page(shared);
    enum pw_shared_result result = pw_shared_write(shared, parts, size);
    uint64_t written = shared->size, end = pw_shared_next_page(shared);
    // A table that ends where a page does has the last byte itself.
    if (result == PW_SHARED_OK && end > written) {
        result = write_at(shared, &last, 1, end - 1);
    }
    return result;
}

enum pw_shared_result pw_shared_finish(struct pw_shared *shared, struct pw_shared_part *parts,
                                       uint32_t count) {
    if (count == 0) {
        return PW_SHARED_DAMAGED;
    }
    enum pw_shared_result result = write_table(shared, parts, count);
    if (result != PW_SHARED_OK) {
        return result;
    }
    struct pw_exchange_header header = {
        .layout = PW_EXCHANGE_LAYOUT,
        .order = PW_EXCHANGE_ORDER,
        .runtime = shared->runtime,
        .user = pw_os_user(),
        .parts = count,
        .maker_fd = shared->maker_fd,
        .maker_pid = shared->maker_pid,
        .table = shared->table,
        .size = shared->size,
    };
    memcpy(header.magic, HEADER_MAGIC, sizeof header.magic);
    memcpy(header.token, shared->token, sizeof header.token);
    header.check = CHECK_OF(&header);
    result = write_at(shared, &header, sizeof header, 0);
    struct pw_os_file file = file_of(shared);
    if (result == PW_SHARED_OK && !pw_os_seal(&file)) {
        result = PW_SHARED_LIMIT;
    }
    shared->parts = count;
    return result;
}

// --- handles -----------------------------------------------------------------

void pw_shared_handle(const struct pw_shared *shared, uint32_t part, void *to) {
    struct pw_exchange_handle handle = {
        .layout = PW_EXCHANGE_LAYOUT,
        .order = PW_EXCHANGE_ORDER,
        .runtime = shared->runtime,
        .user = pw_os_user(),
        .part = part,
        .boot = pw_os_boot_name(),
        .maker_pid = shared->maker_pid,
        .maker_fd = shared->maker_fd,
        .sender_pid = (uint32_t)pw_os_pid(),
        .sender_fd = shared->fd,
        .size = shared->size,
    };
    memcpy(handle.magic, HANDLE_MAGIC, sizeof handle.magic);
    memcpy(handle.token, shared->token, sizeof handle.token);
    handle.check = CHECK_OF(&handle);
    memcpy(to, &handle, sizeof handle);
}

enum pw_shared_result pw_shared_read_handle(const void *from, size_t size, uint32_t runtime,
                                            struct pw_shared_name *name) {
    struct pw_exchange_handle handle;
    if (size != sizeof handle) {
        return PW_SHARED_DAMAGED;
    }
    memcpy(&handle, from, sizeof handle);
    if (memcmp(handle.magic, HANDLE_MAGIC, sizeof handle.magic) != 0 ||
        handle.check != CHECK_OF(&handle)) {
        return PW_SHARED_DAMAGED;
    }
    memcpy(name->token, handle.token, sizeof name->token);
    name->part = handle.part;
    name->user = handle.user;
    name->runtime = handle.runtime;
    name->maker_pid = handle.maker_pid;
    if (handle.layout != PW_EXCHANGE_LAYOUT || handle.order != PW_EXCHANGE_ORDER) {
        return PW_SHARED_LAYOUT;
    }
    if (handle.runtime != runtime) {
        return PW_SHARED_RUNTIME;
    }
    uint64_t boot = pw_os_boot_name();
    if (boot == 0) {
        return PW_SHARED_LIMIT;
    }
    if (handle.boot != boot) {
        return PW_SHARED_MACHINE;
    }
    return handle.user == pw_os_user() ? PW_SHARED_OK : PW_SHARED_USER;
}

// --- opening -----------------------------------------------------------------

// Is this the object of the handle? Nothing is believed that the seals do not vouch for.
static bool take(struct pw_shared *shared, const struct pw_os_file *file,
                 const struct pw_exchange_handle *handle) {
    struct pw_exchange_header header;
    uint64_t size = pw_os_sealed_size(file);
    if (size < 2 * PW_PAGE || size % PW_PAGE || size != handle->size ||
        !pw_os_read(file, &header, sizeof header, 0) ||
        memcmp(header.magic, HEADER_MAGIC, sizeof header.magic) != 0 ||
        header.check != CHECK_OF(&header) ||
        memcmp(header.token, handle->token, sizeof header.token) != 0 ||
        header.layout != PW_EXCHANGE_LAYOUT || header.order != PW_EXCHANGE_ORDER ||
        header.runtime != handle->runtime || header.user != handle->user || header.size != size ||
        header.table > size ||
        header.parts > (size - header.table) / sizeof(struct pw_shared_part)) {
        return false;
    }
    *shared = (struct pw_shared){
        .parts = header.parts,
        .size = size,
        .table = header.table,
        .runtime = header.runtime,
        .maker_pid = header.maker_pid,
        .maker_fd = header.maker_fd,
    };
    memcpy(shared->token, header.token, sizeof shared->token);
    keep_file(shared, file);
    return true;
}

struct attempt {
    const struct pw_exchange_handle *handle;
    struct pw_shared *shared;
    char name[NAME_SIZE];
    enum pw_shared_result result; // the most telling failure so far
};

// True: open.
static bool try_process(struct attempt *attempt, uint32_t pid, int32_t fd) {
    int error;
    struct pw_os_file file = pw_os_open_of_process(pid, fd, attempt->name, &error);
    bool found = file.fd >= 0;
    leave_room(&file);
    if (file.fd < 0) {
        if (found || error == EMFILE || error == ENFILE || error == ENOMEM) {
            attempt->result = PW_SHARED_LIMIT;
        } else if ((error == EACCES || error == EPERM) && pw_os_may_hold(pid)) {
            attempt->result = PW_SHARED_DENIED;
        }
        return false;
    }
    if (!take(attempt->shared, &file, attempt->handle)) {
        attempt->result = PW_SHARED_FORGED;
        pw_os_close(&file);
        return false;
    }
    attempt->result = PW_SHARED_OK;
    return true;
}

static bool try_holder(void *context, uint32_t pid, int32_t fd) {
    struct attempt *attempt = context;
    if (pid == 0) {
        attempt->result = PW_SHARED_LIMIT;
        return false;
    }
    return !try_process(attempt, pid, fd);
}

enum pw_shared_result pw_shared_open(const void *from, size_t size, uint32_t runtime,
                                     struct pw_shared *shared) {
    struct pw_exchange_handle handle;
    struct pw_shared_name name;
    *shared = (struct pw_shared){.fd = -1};
    enum pw_shared_result result = pw_shared_read_handle(from, size, runtime, &name);
    if (result != PW_SHARED_OK) {
        return result;
    }
    memcpy(&handle, from, sizeof handle);
    struct attempt attempt = {.handle = &handle, .shared = shared, .result = PW_SHARED_GONE};
    name_of(handle.token, attempt.name);
    // Whoever else has it will do as well, when these two have ended or let go of it.
    if (!try_process(&attempt, handle.sender_pid, handle.sender_fd) &&
        !try_process(&attempt, handle.maker_pid, handle.maker_fd) &&
        pw_os_each_holder(attempt.name, try_holder, &attempt) && attempt.result == PW_SHARED_GONE) {
        return PW_SHARED_DENIED;
    }
    return attempt.result;
}

bool pw_shared_describe(const struct pw_shared *shared, uint32_t index,
                        struct pw_shared_part *part) {
    struct pw_os_file file = file_of(shared);
    return index < shared->parts &&
           pw_os_read(&file, part, sizeof *part, shared->table + (uint64_t)index * sizeof *part) &&
           part->check == (uint32_t)CHECK_OF(part) && part->offset % PW_PAGE == 0 &&
           part->size > 0 && part->offset >= PW_PAGE && part->offset <= shared->table &&
           part->size <= shared->table - part->offset;
}

// --- views -------------------------------------------------------------------

static size_t view_size(const struct pw_shared_part *part) {
    return pw_pages_for(part->size) * PW_PAGE;
}

void *pw_shared_map(const struct pw_shared *shared, const struct pw_shared_part *part) {
    struct pw_os_file file = file_of(shared);
    return pw_os_map_private(&file, view_size(part), part->offset);
}

void pw_shared_unmap(void *view, const struct pw_shared_part *part) {
    pw_os_unmap(view, view_size(part));
}

bool pw_shared_read(const struct pw_shared *shared, const struct pw_shared_part *part, void *to) {
    struct pw_os_file file = file_of(shared);
    return pw_os_read(&file, to, part->size, part->offset);
}

// Visit the pages of a view that were written, or all of them where the kernel does not tell.
static bool each_written(char *view, const struct pw_shared_part *part, pw_os_visit *visit,
                         void *context) {
    struct pw_os_pagemap pagemap;
    pw_os_pagemap_open(&pagemap);
    bool known = pw_os_pagemap_each(&pagemap, view, view + view_size(part), PW_OS_PRIVATE_PAGES,
                                    visit, context);
    pw_os_close(&pagemap.file);
    return known;
}

struct comparison {
    struct pw_os_file file;
    const struct pw_shared_part *part;
    const char *view;
    bool changed;
};

static bool compare_range(void *context, char *start, size_t size) {
    struct comparison *comparison = context;
    const struct pw_shared_part *part = comparison->part;
    char original[PW_PAGE];
    for (size_t done = 0; done < size && !comparison->changed; done += PW_PAGE) {
        uint64_t offset = (uint64_t)(start + done - comparison->view);
        uint64_t left = part->size - offset;
        size_t length =
            left < PW_PAGE ? (size_t)left : PW_PAGE; // the rest of the last page is no part
        comparison->changed =
            !pw_os_read(&comparison->file, original, length, part->offset + offset) ||
            memcmp(original, start + done, length) != 0;
    }
    return true;
}

bool pw_shared_changed(const struct pw_shared *shared, const struct pw_shared_part *part,
                       const void *view) {
    struct comparison comparison = {.file = file_of(shared), .part = part, .view = view};
    if (!pw_os_is_ours(&comparison.file)) {
        return true; // nobody can have the original any more
    }
    if (!each_written((char *)view, part, compare_range, &comparison)) {
        comparison.changed = false;
        compare_range(&comparison, (char *)view, view_size(part));
    }
    return comparison.changed;
}

static bool count_range(void *context, char *start, size_t size) {
    (void)start;
    *(uint64_t *)context += size;
    return true;
}

uint64_t pw_shared_private(const struct pw_shared_part *part, const void *view) {
    uint64_t bytes = 0;
    return each_written((char *)view, part, count_range, &bytes) ? bytes : PW_SHARED_UNKNOWN;
}

struct costing {
    struct pw_os_pagemap pagemap;
    struct pw_page_cost *cost;
    uint64_t private;
};

static bool add_private(void *context, char *start, size_t size) {
    struct costing *costing = context;
    struct pw_os_tally pages;
    bool known = pw_os_pagemap_tally(&costing->pagemap, start, start + size, &pages);
    costing->private += size;
    costing->cost->own += pages.exclusive * PW_PAGE;
    costing->cost->shared += pages.shared * PW_PAGE;
    costing->cost->swapped += pages.swapped * PW_PAGE;
    return known;
}

bool pw_shared_cost(const struct pw_shared_part *part, const void *view, struct pw_page_cost *cost,
                    uint64_t *published) {
    struct costing costing = {.cost = cost};
    char *start = (char *)view;
    uint64_t huge = 0;
    *cost = (struct pw_page_cost){0};
    pw_os_pagemap_open(&costing.pagemap);
    bool known = each_written(start, part, add_private, &costing);
    bool huge_known = pw_os_pagemap_count(&costing.pagemap, start, start + view_size(part),
                                          PW_OS_HUGE_PAGES, &huge) &&
                      costing.pagemap.scan;
    pw_os_close(&costing.pagemap.file);
    *published = view_size(part) - costing.private;
    cost->shared += *published;
    cost->huge = huge_known ? huge * PW_PAGE : 0;
    cost->huge_known = huge_known;
    return known;
}

// From one view to another that is that far away.
static bool copy_range(void *context, char *start, size_t size) {
    pw_os_copy(start + *(const ptrdiff_t *)context, start, size);
    return true;
}

void *pw_shared_map_again(const struct pw_shared *shared, const struct pw_shared_part *part,
                          const void *view) {
    char *again = pw_shared_map(shared, part);
    if (!again) {
        return NULL;
    }
    ptrdiff_t distance = again - (char *)view;
    if (!each_written((char *)view, part, copy_range, &distance)) {
        for (size_t at = 0; at < view_size(part); at += PW_PAGE) {
            if (memcmp(again + at, (const char *)view + at, PW_PAGE) != 0) {
                pw_os_copy(again + at, (const char *)view + at, PW_PAGE);
            }
        }
    }
    return again;
}

// --- who has it --------------------------------------------------------------

struct holders {
    uint32_t *pids;
    size_t room, count;
    uint32_t last;
};

static bool add_holder(void *context, uint32_t pid, int32_t fd) {
    struct holders *holders = context;
    (void)fd;
    if (pid == 0) {
        return false; // no more can be found
    }
    if (holders->count > 0 && pid == holders->last) {
        return true; // by another descriptor: a process's come one after the other
    }
    if (holders->count < holders->room) {
        holders->pids[holders->count] = pid;
    }
    holders->last = pid;
    holders->count++;
    return true;
}

size_t pw_shared_holders(const struct pw_shared *shared, uint32_t *pids, size_t room) {
    char name[NAME_SIZE];
    struct holders holders = {pids, room, 0, 0};
    name_of(shared->token, name);
    pw_os_each_holder(name, add_holder, &holders);
    return holders.count;
}
