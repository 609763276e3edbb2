// Stands in for the library: leaves a statistics block with known figures, as the header lays it
// out.
#define _GNU_SOURCE
#include "../../../core/include/pagewise.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_block(void) {
    const char *options = getenv("PAGEWISE_OPTIONS");
    const char *folder = options ? strstr(options, "statistics=") : NULL;
    if (!folder)
        return;
    folder += strlen("statistics=");
    char path[4096];
    snprintf(path, sizeof path, "%.*s/pagewise-%d.stats", (int)strcspn(folder, ","), folder,
             getpid());
    struct pw_statistics block = {.version = PW_STATISTICS_VERSION, .size = sizeof block};
    memcpy(block.magic, PW_STATISTICS_MAGIC, sizeof block.magic);
    strcpy(block.policy, "auto");
    block.pid = (uint64_t)getpid();
    block.blocks_allocated = 7;
    block.copies_shared = 3;
    block.shared_copy_bytes = 3900000000;
    block.zero_reclaimed_bytes = 210000000;
    block.fallback_keeper = 1;
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fwrite(&block, sizeof block, 1, file);
    fclose(file);
}
