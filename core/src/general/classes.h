// SPDX-License-Identifier: MIT
//
// Size classes: every 16 bytes to 128, eight to a doubling to 1 KB, four to a doubling to 32 KB.
// All are multiples of 16, so that every block is aligned as malloc promises. Medium blocks go on
// with four to a doubling to 4 MB, all of whole pages.
#ifndef PW_GENERAL_CLASSES_H
#define PW_GENERAL_CLASSES_H

#include <stddef.h>

#define PW_GENERAL_CLASSES 52u
#define PW_GENERAL_LARGEST ((size_t)32 << 10)

#define PW_MEDIUM_CLASSES 28u
#define PW_MEDIUM_LARGEST ((size_t)4 << 20)
#define PW_ALL_CLASSES    (PW_GENERAL_CLASSES + PW_MEDIUM_CLASSES)

#define PW_CLASS_GRAIN        16u
#define PW_CLASS_EVEN         8u    // classes of 16, 32, ... 128 bytes
#define PW_CLASS_FINE_LARGEST 1024u // eight to a doubling up to here
#define PW_CLASS_FINE         32u   // classes up to there

// The smallest class whose blocks hold `size` bytes; size <= PW_MEDIUM_LARGEST.
static inline unsigned pw_class_of(size_t size) {
    size_t last = size ? size - 1 : 0; // the last byte's offset decides
    if (last < (size_t)PW_CLASS_GRAIN * PW_CLASS_EVEN) {
        return (unsigned)(last / PW_CLASS_GRAIN);
    }
    unsigned doubling = 63u - (unsigned)__builtin_clzll(last); // 7: 129 to 256 bytes
    if (last < PW_CLASS_FINE_LARGEST) {
        return (doubling - 7) * 8 + (unsigned)(last >> (doubling - 3));
    }
    return PW_CLASS_FINE + (doubling - 10) * 4 + (unsigned)(last >> (doubling - 2)) - 4;
}

static inline size_t pw_class_size(unsigned class_number) {
    if (class_number < PW_CLASS_EVEN) {
        return (size_t)(class_number + 1) * PW_CLASS_GRAIN;
    }
    if (class_number < PW_CLASS_FINE) {
        unsigned doubling = (class_number - PW_CLASS_EVEN) / 8;
        return (size_t)(9 + (class_number - PW_CLASS_EVEN) % 8) << (doubling + 4);
    }
    unsigned doubling = (class_number - PW_CLASS_FINE) / 4;
    return (size_t)(5 + (class_number - PW_CLASS_FINE) % 4) << (doubling + 8);
}

#endif
