// SPDX-License-Identifier: MIT
#include "php_pagewise.h"

void pw_php_take_over_ffi(void) {
}
