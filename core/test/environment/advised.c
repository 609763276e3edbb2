// SPDX-License-Identifier: MIT
//
// An R package's C code that changes how its own blocks are mapped, called by .C.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)1 << PW_PAGE_SHIFT)

static char *new_block(size_t size) {
    void *block = NULL;
    if (posix_memalign(&block, PAGE, size) != 0) {
        abort();
    }
    memset(block, 7, size);
    return block;
}

void advise_and_free(const int *pages) {
    size_t size = (size_t)*pages * PAGE;
    char *block = new_block(size);
    if (madvise(block, size, MADV_WIPEONFORK) != 0) {
        abort();
    }
    free(block);
    block = new_block(size);
    if (madvise(block, size, MADV_DONTFORK) != 0 ||
        mprotect(block + size / 2, PAGE, PROT_READ) != 0) {
        abort();
    }
    free(block);
}

// The manual page of mprotect has this as its example.
void guard(const int *pages) {
    size_t size = (size_t)*pages * PAGE;
    char *block = new_block(size);
    if (mprotect(block + size - PAGE, PAGE, PROT_NONE) != 0) {
        abort();
    }
}

// How many bytes of a block that was shared by a copy do not read zero after it was emptied?
void empty_shared(int *wrong) {
    size_t size = (size_t)8 << 20;
    char *block = new_block(size), *copy = new_block(size);
    memcpy(copy, block, size);
    memcpy(copy, block, size);
    madvise(block, size, MADV_DONTNEED);
    *wrong = 0;
    for (size_t i = 0; i < size; i++) {
        *wrong += block[i] != 0;
    }
    free(copy);
    free(block);
}
