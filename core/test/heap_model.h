// SPDX-License-Identifier: MIT
//
// A transaction heap beside a model of it: bytes are read as operations, done to both, and
// compared. test_heap_stress feeds it random bytes, fuzz_heap what libFuzzer finds.
#ifndef PW_TEST_HEAP_MODEL_H
#define PW_TEST_HEAP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Aborts, and says why, at the first difference.
void heap_model_run(const uint8_t *data, size_t size);

// The same in parts: one transaction at a time, each by whichever thread has the model then.
struct heap_model *heap_model_new(const uint8_t *data, size_t size);
bool heap_model_transaction(struct heap_model *model); // false: that was the last one
void heap_model_delete(struct heap_model *model);

#endif
