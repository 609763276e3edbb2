// SPDX-License-Identifier: MIT
#include "program.h"

#include <string.h>

const char *own_path;

static const struct program_case *const subjects[] = {
    limit_cases,  mapping_cases, memory_cases,  denied_cases, process_cases, descriptor_cases,
    signal_cases, thread_cases,  library_cases, child_cases,  advice_cases,  copy_cases,
};

int main(int count, char **arguments) {
    own_path = arguments[0];
    for (size_t i = 0; count > 1 && i < sizeof subjects / sizeof *subjects; i++) {
        for (const struct program_case *found = subjects[i]; found->name; found++) {
            if (!strcmp(found->name, arguments[1])) {
                return found->function(arguments + 2);
            }
        }
    }
    fprintf(stderr, "program: no such case\n");
    return 2;
}
