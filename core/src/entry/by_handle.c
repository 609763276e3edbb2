// SPDX-License-Identifier: MIT
//
// Part of the libraries that stand in front of the C library: what dlsym() says of its functions.
//
// Whoever asks the C library itself for `free` or `madvise`, by a handle that dlopen gave him
// (CDLL("libc.so.6") of Python's ctypes, Fiddle, FFI), goes past every preloaded library. But the
// block that he frees may be one of ours. So he gets our function, as by the name alone.
//
// Only where the C library's is the next of that name after ours. A library between the two may ask
// for the C library's so as to wrap it: by ours it would call itself without end.
#include "os/dlsym.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if (defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__)

// The dlsym behind ours: the C library's, or that of a library which wraps it.
static pw_os_look_up *next_dlsym __asm__("pw_next_dlsym") __attribute__((used));

// What is found at the first question about a handle, and not before: a sanitizer asks for what
// comes next before anything else works. Who asks meanwhile finds the same.
static struct {
    pw_os_look_up *own;   // the C library's dlsym, by which we look for ourselves
    uintptr_t start, end; // where the C library lies
    void *self;           // our library, as a handle; stored last
    bool tried;
} found;

static void find_next_dlsym(void) {
    pw_os_look_up *own = pw_os_next_dlsym();
    pw_os_look_up *next = own ? (pw_os_look_up *)own(RTLD_NEXT, "dlsym") : NULL;
    found.own = own;
    __atomic_store_n(&next_dlsym, next, __ATOMIC_RELEASE);
}

static void find_c_library(void) {
    Dl_info info; // of a function that nobody else defines
    if (!dladdr((const void *)(uintptr_t)gnu_get_libc_version, &info)) {
        return;
    }
    const ElfW(Ehdr) *header = info.dli_fbase;
    const ElfW(Phdr) *segments = (const void *)((const char *)info.dli_fbase + header->e_phoff);
    uintptr_t start = (uintptr_t)info.dli_fbase, end = start;
    for (int i = 0; i < header->e_phnum; i++) {
        uintptr_t last = start + segments[i].p_vaddr + segments[i].p_memsz;
        end = segments[i].p_type == PT_LOAD && last > end ? last : end;
    }
    found.start = start;
    found.end = end;
}

// By the C library's dlopen: one that wraps it may look for the next by our dlsym.
static void *find_self(void) {
    Dl_info info;
    void *(*open_library)(const char *, int) =
        (void *(*)(const char *, int))dlvsym(RTLD_NEXT, "dlopen", pw_os_dlsym_version());
    void *self = open_library && dladdr(&found, &info)
                     ? open_library(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                     : NULL;
    if (!self) {
        dlerror(); // not the program's to see: what it asked for was found
    }
    return self;
}

// False: it cannot be found.
static bool know_ourselves(void) {
    if (!__atomic_load_n(&found.tried, __ATOMIC_ACQUIRE)) {
        find_c_library();
        void *self = find_self();
        if (self) { // another thread may have found it
            __atomic_store_n(&found.self, self, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&found.tried, true, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found.self, __ATOMIC_ACQUIRE) != NULL;
}

static bool is_ours(const void *address) {
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (uintptr_t)address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
}

static bool is_of_c_library(const void *address) {
    return (uintptr_t)address - found.start < found.end - found.start;
}

static void *ours_instead_of(void *function, const char *name) {
    if (!know_ourselves() || !is_of_c_library(function) || found.own(RTLD_NEXT, name) != function) {
        return function;
    }
    void *ours = found.own(found.self, name);
    return is_ours(ours) ? ours : function;
}

// NULL: not ours to answer, or an error that the dlsym behind has to report.
static void *answer_by_handle(void *library, const char *name) __asm__("pw_answer_by_handle")
    __attribute__((used));

static void *answer_by_handle(void *library, const char *name) {
    if (!__atomic_load_n(&next_dlsym, __ATOMIC_ACQUIRE)) {
        find_next_dlsym();
    }
    if (!next_dlsym || library == RTLD_DEFAULT || library == RTLD_NEXT) {
        return NULL;
    }
    void *function = next_dlsym(library, name);
    return function ? ours_instead_of(function, name) : NULL;
}

// RTLD_NEXT is what comes next after the caller, who is told by the return address. So the function
// behind ours is jumped to, not called.
#ifdef __x86_64__
#define JUMP                                                                                       \
    "    endbr64\n"                                                                                \
    "    pushq %rdi\n"                                                                             \
    "    .cfi_adjust_cfa_offset 8\n"                                                               \
    "    pushq %rsi\n"                                                                             \
    "    .cfi_adjust_cfa_offset 8\n"                                                               \
    "    subq $8, %rsp\n"                                                                          \
    "    .cfi_adjust_cfa_offset 8\n"                                                               \
    "    call pw_answer_by_handle\n"                                                               \
    "    addq $8, %rsp\n"                                                                          \
    "    .cfi_adjust_cfa_offset -8\n"                                                              \
    "    popq %rsi\n"                                                                              \
    "    .cfi_adjust_cfa_offset -8\n"                                                              \
    "    popq %rdi\n"                                                                              \
    "    .cfi_adjust_cfa_offset -8\n"                                                              \
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
    "    .cfi_adjust_cfa_offset 32\n"                                                              \
    "    str x30, [sp, #16]\n"                                                                     \
    "    .cfi_rel_offset x30, 16\n"                                                                \
    "    bl pw_answer_by_handle\n"                                                                 \
    "    mov x9, x0\n"                                                                             \
    "    ldr x30, [sp, #16]\n"                                                                     \
    "    .cfi_restore x30\n"                                                                       \
    "    ldp x0, x1, [sp], #32\n"                                                                  \
    "    .cfi_adjust_cfa_offset -32\n"                                                             \
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
