// SPDX-License-Identifier: MIT
//
// lives SCRIPT MODE...: starts PHP, runs the script and ends PHP, once for each mode.
#include <sapi/embed/php_embed.h>

#include <stdlib.h>

static bool live(const char *script, const char *mode) {
    setenv("PAGEWISE_PHP_MODE", mode, true);
    if (php_embed_init(0, NULL) != SUCCESS) {
        return false;
    }
    zend_file_handle file;
    zend_stream_init_filename(&file, script);
    bool runs = php_execute_script(&file);
    zend_destroy_file_handle(&file);
    php_embed_shutdown();
    return runs;
}

int main(int count, char **words) {
    for (int i = 2; i < count; i++) {
        if (!live(words[1], words[i])) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
