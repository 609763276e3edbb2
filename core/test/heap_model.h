// SPDX-License-Identifier: MIT
//
// A transaction heap beside a model of it: bytes are read as operations, done to both, and
// compared. test_heap_stress feeds it random bytes, fuzz_heap what libFuzzer finds.
#ifndef PW_TEST_HEAP_MODEL_H
#define PW_TEST_HEAP_MODEL_H

#include <stddef.h>
#include <stdint.h>

// Aborts, and says why, at the first difference.
void heap_model_run(const uint8_t *data, size_t size);

#endif
