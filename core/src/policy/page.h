// SPDX-License-Identifier: MIT
//
// Decisions count in pages. What was measured in megabytes is so many of them, of whatever size the
// kernel's are.
#ifndef PW_POLICY_PAGE_H
#define PW_POLICY_PAGE_H

#include <stdint.h>

#ifndef PW_PAGE_SHIFT
#define PW_PAGE_SHIFT 12 // as in os/os.h
#endif
#define PW_MEGABYTE_PAGES ((uint32_t)1 << (20 - PW_PAGE_SHIFT))

#endif
