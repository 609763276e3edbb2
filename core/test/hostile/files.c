// SPDX-License-Identifier: MIT
//
// Descriptors: the program closes what it did not open, puts files of its own under any number, and
// finds in them what it wrote.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES     10
#define FILE_ROOM (64 * KB)

static struct own_file {
    int fd; // 0: none
    size_t size;
    blkcnt_t blocks;
    unsigned char *shadow;
} files[FILES];

static struct own_file *some_file(void) {
    unsigned from = (unsigned)random_below(&world.random, FILES);
    for (unsigned i = 0; i < FILES; i++) {
        if (files[(from + i) % FILES].fd) {
            return &files[(from + i) % FILES];
        }
    }
    return NULL;
}

static struct own_file *file_at(int fd) {
    for (unsigned i = 0; i < FILES; i++) {
        if (files[i].fd == fd) {
            return &files[i];
        }
    }
    return NULL;
}

static void check_file(const struct own_file *file) {
    struct stat about;
    static unsigned char bytes[FILE_ROOM];
    if (fstat(file->fd, &about) != 0) {
        fail("the program's descriptor %d is gone: errno %d", file->fd, errno);
    }
    if ((size_t)about.st_size != file->size || about.st_blocks != file->blocks) {
        fail("the program's file at descriptor %d has %lld bytes in %lld blocks, not %zu in %lld",
             file->fd, (long long)about.st_size, (long long)about.st_blocks, file->size,
             (long long)file->blocks);
    }
    if (pread(file->fd, bytes, file->size, 0) != (ssize_t)file->size) {
        fail("the program's file at descriptor %d cannot be read: errno %d", file->fd, errno);
    }
    for (size_t i = 0; i < file->size; i++) {
        if (bytes[i] != file->shadow[i]) {
            fail("byte %zu of the program's file at descriptor %d is %02x, not %02x", i, file->fd,
                 bytes[i], file->shadow[i]);
        }
    }
}

void files_check(void) {
    for (unsigned i = 0; i < FILES; i++) {
        if (files[i].fd) {
            check_file(&files[i]);
        }
    }
}

// A child has the same files, which its parent goes on writing to.
void files_after_fork(void) {
    for (unsigned i = 0; i < FILES; i++) {
        files[i].fd = 0;
    }
}

static void note_blocks(struct own_file *file) {
    struct stat about;
    if (fstat(file->fd, &about) == 0) {
        file->blocks = about.st_blocks;
    }
}

// Under a number that may be in use: by nobody, by another file of the program's, or by somebody
// else.
static void open_file(void) {
    struct own_file *file = &files[random_below(&world.random, FILES)];
    int number = random_chance(&world.random, 2) ? 3 + (int)random_below(&world.random, 40)
                                                 : 500 + (int)random_below(&world.random, 60);
    if (file->fd) {
        check_file(file);
        close(file->fd);
        file->fd = 0;
    }
    int made = memfd_create("own", MFD_CLOEXEC);
    if (made < 0) {
        fail("no file: errno %d", errno);
    }
    struct own_file *other = made == number ? NULL : file_at(number);
    if (other) {
        other->fd = 0;
    }
    file->fd = random_chance(&world.random, 2) ? dup2(made, number) : made;
    if (file->fd != made) {
        close(made);
    } else if (other) {
        other->fd = number;
    }
    if (!file->shadow) {
        file->shadow = raw_memory(FILE_ROOM, false);
    }
    file->size = 1 + random_below(&world.random, FILE_ROOM);
    unsigned char value = (unsigned char)random_next(&world.random);
    for (size_t i = 0; i < file->size; i++) {
        file->shadow[i] = (unsigned char)(value + i * 7);
    }
    if (pwrite(file->fd, file->shadow, file->size, 0) != (ssize_t)file->size) {
        fail("the program's file cannot be written: errno %d", errno);
    }
    note_blocks(file);
    say("a file of %zu bytes at descriptor %d", file->size, file->fd);
}

static void close_all(void) {
    bool keep_own = random_chance(&world.random, 2);
    say("all descriptors are closed%s", keep_own ? " but the program's" : "");
    if (!keep_own && random_chance(&world.random, 2)) {
        close_range(3, ~0u, 0);
    } else {
        for (int fd = 3; fd < 1100; fd++) {
            if (!keep_own || !file_at(fd)) {
                close(fd);
            }
        }
    }
    for (unsigned i = 0; i < FILES && !keep_own; i++) {
        files[i].fd = 0;
    }
}

static void check_one_file(void) {
    struct own_file *file = some_file();
    if (file) {
        check_file(file);
    }
}

// The kernel stores into a block.
static void read_into(void) {
    struct own_file *file = some_file();
    struct block *block = some_block();
    size_t from = 0, size = file && block ? some_range(block, &from) : 0;
    if (size) {
        size = size < file->size ? size : file->size;
    }
    if (size && may_write(block, from, size)) {
        say("read of %zu bytes into %zu of %zu bytes at %p", size, from, block->size,
            (void *)block->data);
        if (pread(file->fd, block->data + from, size, 0) != (ssize_t)size) {
            fail("read of %zu bytes into %p: errno %d", size, (void *)(block->data + from), errno);
        }
        plain_copy(block->shadow + from, file->shadow, size);
        check_range(block, from, size);
    }
}

static void write_from(void) {
    struct own_file *file = some_file();
    struct block *block = some_block();
    size_t from = 0, size = file && block ? some_range(block, &from) : 0;
    if (size) {
        size = size < file->size ? size : file->size;
    }
    if (size && may_read(block, from, size) && !block->raced) {
        if (pwrite(file->fd, block->data + from, size, 0) != (ssize_t)size) {
            fail("write of %zu bytes from %p: errno %d", size, (void *)(block->data + from), errno);
        }
        plain_copy(file->shadow, block->shadow + from, size);
    }
}

const struct operation file_operations[] = {
    {"open", open_file, 900, IN_CHILDREN | NO_MALLOC},
    {"close-all", close_all, 60, IN_CHILDREN | NO_MALLOC},
    {"check-file", check_one_file, 900, IN_CHILDREN | NO_MALLOC},
    {"read-into", read_into, 2500, IN_CHILDREN | NO_MALLOC},
    {"write-from", write_from, 1500, NO_MALLOC}, // children have the same files
    {0},
};
