// SPDX-License-Identifier: MIT
//
// Part of the libraries that stand in front of the C library: what dlsym() says of its functions.
//
// Whoever asks the C library itself for `free` or `madvise`, by a handle that dlopen gave him
// (CDLL("libc.so.6") of Python's ctypes, Fiddle, FFI), goes past every preloaded library. But the
// block that he frees may be one of ours. So he gets our function, as by the name alone.
//
// Only where our definition is the first in the process and the C library's is the next. A library
// between the two has the same name and may ask for the C library's so as to stand in front of it:
// by ours it would call itself without end.
#include "os/dlsym.h"

#include <dlfcn.h>
#include <stdint.h>

#if (defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__)

typedef void *look_up(void *library, const char *name);

// The dlsym behind ours, which another library may have put before the C library's.
static look_up *next_dlsym __asm__("pw_next_dlsym") __attribute__((used));

static bool are_in_one_module(const void *one, const void *other) {
    Dl_info first, second;
    return dladdr(one, &first) && dladdr(other, &second) && first.dli_fbase == second.dli_fbase;
}

extern void __libc_free(void *block);

static void *ours_instead_of(void *found, const char *name) {
    if (!are_in_one_module(found, (const void *)(uintptr_t)__libc_free)) {
        return found;
    }
    void *first = next_dlsym(RTLD_DEFAULT, name), *behind = next_dlsym(RTLD_NEXT, name);
    return behind == found && are_in_one_module(first, &next_dlsym) ? first : found;
}

// What is asked for by a handle, or NULL: the dlsym behind ours has to say it.
static void *answer_by_handle(void *library, const char *name) __asm__("pw_answer_by_handle")
    __attribute__((used));

static void *answer_by_handle(void *library, const char *name) {
    if (!next_dlsym) {
        next_dlsym = (look_up *)dlvsym(RTLD_NEXT, "dlsym", pw_os_dlsym_version());
    }
    if (!next_dlsym || library == RTLD_DEFAULT || library == RTLD_NEXT) {
        return NULL;
    }
    void *found = next_dlsym(library, name);
    return found ? ours_instead_of(found, name) : NULL;
}

// RTLD_NEXT is what comes next after the caller, who is told by the return address. So the function
// behind ours is jumped to, not called.
#ifdef __x86_64__
#define JUMP                                                                                       \
    "    endbr64\n"                                                                                \
    "    pushq %rdi\n"                                                                             \
    "    pushq %rsi\n"                                                                             \
    "    subq $8, %rsp\n"                                                                          \
    "    .cfi_adjust_cfa_offset 24\n"                                                              \
    "    call pw_answer_by_handle\n"                                                               \
    "    addq $8, %rsp\n"                                                                          \
    "    popq %rsi\n"                                                                              \
    "    popq %rdi\n"                                                                              \
    "    .cfi_adjust_cfa_offset -24\n"                                                             \
    "    testq %rax, %rax\n"                                                                       \
    "    jnz 1f\n"                                                                                 \
    "    movq pw_next_dlsym(%rip), %rax\n"                                                         \
    "    testq %rax, %rax\n"                                                                       \
    "    jz 1f\n"                                                                                  \
    "    jmp *%rax\n"                                                                              \
    "1:  ret\n"
#else
#define JUMP                                                                                       \
    "    hint #34\n" /* bti c */                                                                   \
    "    stp x0, x1, [sp, #-32]!\n"                                                                \
    "    str x30, [sp, #16]\n"                                                                     \
    "    .cfi_adjust_cfa_offset 32\n"                                                              \
    "    .cfi_rel_offset x30, 16\n"                                                                \
    "    bl pw_answer_by_handle\n"                                                                 \
    "    mov x9, x0\n"                                                                             \
    "    ldr x30, [sp, #16]\n"                                                                     \
    "    ldp x0, x1, [sp], #32\n"                                                                  \
    "    .cfi_adjust_cfa_offset -32\n"                                                             \
    "    .cfi_restore x30\n"                                                                       \
    "    cbnz x9, 1f\n"                                                                            \
    "    adrp x16, pw_next_dlsym\n"                                                                \
    "    ldr x16, [x16, :lo12:pw_next_dlsym]\n"                                                    \
    "    cbz x16, 1f\n"                                                                            \
    "    br x16\n"                                                                                 \
    "1:  mov x0, x9\n"                                                                             \
    "    ret\n"
#endif

__asm__("    .pushsection .text\n"
        "    .p2align 4\n"
        "    .globl dlsym\n"
        "    .type dlsym, %function\n"
        "dlsym:\n"
        "    .cfi_startproc\n" JUMP "    .cfi_endproc\n"
        "    .size dlsym, . - dlsym\n"
        "    .popsection\n");

#endif
