// SPDX-License-Identifier: MIT
//
// Two libraries of the same shape, so that the second is loaded where the first one was.
#include <stdlib.h>

__attribute__((noinline)) void *plugin_block(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" ::: "memory");
    return block;
}

#ifdef __x86_64__
// The same with a frame whose size no register tells.
#define TEXT(x)  #x
#define BYTES(x) TEXT(x)
#define FRAME    BYTES(PLUGIN * 32 - 24)
__asm__(".globl plugin_framed\n"
        ".type plugin_framed, @function\n"
        "plugin_framed:\n"
        "    .cfi_startproc\n"
        "    subq $" FRAME ", %rsp\n"
        "    .cfi_adjust_cfa_offset " FRAME "\n"
        "    call malloc@PLT\n"
        "    addq $" FRAME ", %rsp\n"
        "    .cfi_adjust_cfa_offset -(" FRAME ")\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size plugin_framed, . - plugin_framed\n");
#endif

int plugin_number(void) {
    return PLUGIN;
}
