// SPDX-License-Identifier: MIT
//
// libFuzzer on sequences of heap operations: fuzz_heap [libFuzzer's options] [CORPUS...]
#include "heap_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    heap_model_run(data, size);
    return 0;
}
