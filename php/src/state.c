// SPDX-License-Identifier: MIT
//
// The extension's state, and why it did not switch, for PHP's error log.
#include "php_pagewise.h"

struct pw_php pw_php;

void pw_php_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pw_php.reason, sizeof pw_php.reason, format, arguments);
    va_end(arguments);
    char line[sizeof pw_php.reason + 16];
    snprintf(line, sizeof line, "pagewise: %s", pw_php.reason);
    php_log_err(line);
}
