// SPDX-License-Identifier: MIT
#include "general/general.h"

static void *const no_block = NULL;
const struct pw_cache pw_cache_none = {
    .stacks = {[0 ... PW_GENERAL_CLASSES - 1] = {(void **)&no_block, (void **)&no_block}}};

__thread struct pw_general_thread pw_general_thread = {.cache = (struct pw_cache *)&pw_cache_none};
