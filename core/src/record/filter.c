// SPDX-License-Identifier: MIT
//
// Classic BPF as seccomp has it (Documentation/userspace-api/seccomp_filter.rst, and the kernel's
// seccomp_check_filter: words are loaded from the call's description, and nothing else).

#include "record/filter.h"

#include <string.h>

struct machine {
    __u32 a, x;
    __u32 memory[BPF_MEMWORDS];
};

static __u32 word_at(const struct seccomp_data *call, __u32 offset) {
    __u32 word = 0;
    if (offset % sizeof word == 0 && offset < sizeof *call) {
        memcpy(&word, (const char *)call + offset, sizeof word);
    }
    return word;
}

static __u32 loaded(const struct machine *machine, const struct sock_filter *step,
                    const struct seccomp_data *call) {
    switch (BPF_MODE(step->code)) {
    case BPF_ABS:
        return word_at(call, step->k);
    case BPF_LEN:
        return sizeof *call;
    case BPF_MEM:
        return machine->memory[step->k % BPF_MEMWORDS];
    default:
        return step->k;
    }
}

static __u32 computed(__u32 a, __u32 operation, __u32 operand) {
    switch (operation) {
    case BPF_ADD:
        return a + operand;
    case BPF_SUB:
        return a - operand;
    case BPF_MUL:
        return a * operand;
    case BPF_DIV:
        return operand ? a / operand : 0;
    case BPF_AND:
        return a & operand;
    case BPF_OR:
        return a | operand;
    case BPF_XOR:
        return a ^ operand;
    case BPF_LSH:
        return operand < 32 ? a << operand : 0;
    case BPF_RSH:
        return operand < 32 ? a >> operand : 0;
    default:
        return -a; // BPF_NEG
    }
}

static bool holds(__u32 a, __u32 condition, __u32 operand) {
    switch (condition) {
    case BPF_JEQ:
        return a == operand;
    case BPF_JGT:
        return a > operand;
    case BPF_JGE:
        return a >= operand;
    default:
        return (a & operand) != 0; // BPF_JSET
    }
}

__u32 pw_filter_answer(const struct sock_fprog *program, const struct seccomp_data *call) {
    struct machine machine = {0};
    for (__u32 at = 0; at < program->len; at++) {
        const struct sock_filter *step = &program->filter[at];
        __u32 operand = BPF_SRC(step->code) == BPF_X ? machine.x : step->k;
        switch (BPF_CLASS(step->code)) {
        case BPF_LD:
            machine.a = loaded(&machine, step, call);
            break;
        case BPF_LDX:
            machine.x = loaded(&machine, step, call);
            break;
        case BPF_ST:
            machine.memory[step->k % BPF_MEMWORDS] = machine.a;
            break;
        case BPF_STX:
            machine.memory[step->k % BPF_MEMWORDS] = machine.x;
            break;
        case BPF_ALU:
            machine.a = computed(machine.a, BPF_OP(step->code), operand);
            break;
        case BPF_JMP:
            at += BPF_OP(step->code) == BPF_JA                    ? step->k
                  : holds(machine.a, BPF_OP(step->code), operand) ? step->jt
                                                                  : step->jf;
            break;
        case BPF_RET:
            return BPF_RVAL(step->code) == BPF_A ? machine.a : step->k;
        default: // BPF_MISC
            if (BPF_MISCOP(step->code) == BPF_TAX) {
                machine.x = machine.a;
            } else {
                machine.a = machine.x;
            }
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}
