// SPDX-License-Identifier: MIT
#include "block/account.h"
#include "process/lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROOM ((size_t)32 << 10) // for each form

// --- numbers -------------------------------------------------------------------------------

static void add_larger(void *context, struct pw_arena *arena, struct pw_extent *extent) {
    struct pw_account *account = context;
    (void)arena;
    account->larger_blocks++;
    account->larger_bytes += (size_t)extent->pages * PW_PAGE;
}

// A block on the shelf is one in use to the arena.
static void leave_out_shelf(struct pw_process *process, struct pw_account *account) {
    const struct pw_general *general = &process->general;
    size_t blocks = process->gate->general ? pw_shelf_blocks(general) : 0;
    size_t bytes = process->gate->general ? pw_shelf_pages(general) * PW_PAGE : 0;
    account->larger_blocks -= blocks < account->larger_blocks ? blocks : account->larger_blocks;
    account->larger_bytes -= bytes < account->larger_bytes ? bytes : account->larger_bytes;
    account->shelf_bytes = bytes;
}

void pw_account_read(struct pw_process *process, struct pw_account *account) {
    *account = (struct pw_account){0};
    if (process->gate->general) {
        pw_general_usage(&process->general, &account->small);
    }
    // Where the lock is lost, or this thread holds it, the numbers of before are not known.
    if (process->arena.base && pw_process_enter()) {
        pw_arena_each(&process->arena, add_larger, account);
        leave_out_shelf(process, account);
        account->warm_bytes = process->arena.warm_pages * PW_PAGE;
        pw_process_leave();
    }
}

// --- text ----------------------------------------------------------------------------------

struct writer {
    char *text;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void write_text(struct writer *writer,
                                                             const char *format, ...) {
    size_t at = writer->length < writer->size ? writer->length : writer->size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(writer->text + at, writer->size - at, format, arguments);
    va_end(arguments);
    writer->length += length > 0 ? (size_t)length : 0;
}

static void write_lines(struct writer *writer, struct pw_process *process,
                        const struct pw_account *account) {
    const struct pw_statistics *block = process->stats.block;
    size_t used = account->small.block_bytes + account->larger_bytes;
    write_text(writer, "pagewise: policy %.16s, process %lu\n", block->policy,
               (unsigned long)block->pid);
    write_text(writer, "%14zu bytes in use by the program\n", used);
    write_text(writer, "%14zu of them in %zu blocks of more than 32 KB\n", account->larger_bytes,
               account->larger_blocks);
    write_text(writer, "%14zu in segments of small blocks\n", account->small.segment_bytes);
    write_text(writer, "%14zu released, kept for the next request\n",
               account->shelf_bytes + account->warm_bytes);
    write_text(writer, "%14s %10s %10s %10s\n", "size", "segments", "in use", "free");
    for (unsigned i = 0; process->gate->general && i < PW_GENERAL_CLASSES; i++) {
        struct pw_class_usage usage;
        pw_general_class_usage(&process->general, i, &usage);
        if (usage.segments > 0) {
            write_text(writer, "%14zu %10zu %10zu %10zu\n", usage.size, usage.segments, usage.used,
                       usage.free);
        }
    }
#define LINE(name, meaning)                                                                        \
    if (block->name) {                                                                             \
        write_text(writer, "%14lu %s: %s\n", (unsigned long)block->name, #name, meaning);          \
    }
    PW_STATISTICS_FIELDS(LINE)
#undef LINE
}

static void write_json(struct writer *writer, struct pw_process *process,
                       const struct pw_account *account) {
    const struct pw_statistics *block = process->stats.block;
    const char *comma = "";
    write_text(writer, "{\"schema\": 1, \"pid\": %lu, \"policy\": \"%.16s\",\n",
               (unsigned long)block->pid, block->policy);
    write_text(writer, "\"small\": {\"segment_bytes\": %zu, \"used_bytes\": %zu},\n",
               account->small.segment_bytes, account->small.block_bytes);
    write_text(writer, "\"larger\": {\"blocks\": %zu, \"bytes\": %zu},\n", account->larger_blocks,
               account->larger_bytes);
    write_text(writer, "\"kept\": {\"shelf_bytes\": %zu, \"warm_bytes\": %zu},\n\"classes\": [",
               account->shelf_bytes, account->warm_bytes);
    for (unsigned i = 0; process->gate->general && i < PW_GENERAL_CLASSES; i++) {
        struct pw_class_usage usage;
        pw_general_class_usage(&process->general, i, &usage);
        if (usage.segments > 0) {
            write_text(writer,
                       "%s\n{\"size\": %zu, \"segments\": %zu, \"used\": %zu, \"free\": %zu}",
                       comma, usage.size, usage.segments, usage.used, usage.free);
            comma = ",";
        }
    }
    write_text(writer, "],\n\"statistics\": {");
    comma = "";
#define MEMBER(name, meaning)                                                                      \
    write_text(writer, "%s\n\"%s\": %lu", comma, #name, (unsigned long)block->name);               \
    comma = ",";
    PW_STATISTICS_FIELDS(MEMBER)
#undef MEMBER
    write_text(writer, "}}\n");
}

// The elements that readers of the C library's text look for, of one arena.
static void write_xml(struct writer *writer, struct pw_process *process,
                      const struct pw_account *account) {
    const struct pw_general_usage *small = &account->small;
    size_t free_bytes = small->segment_bytes - small->block_bytes;
    size_t heap = small->segment_bytes + account->warm_bytes + account->shelf_bytes;
    write_text(writer, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned i = 0; process->gate->general && i < PW_GENERAL_CLASSES; i++) {
        struct pw_class_usage usage;
        pw_general_class_usage(&process->general, i, &usage);
        if (usage.free > 0) {
            write_text(writer, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                       i > 0 ? pw_class_size(i - 1) + 1 : 1, usage.size, usage.size * usage.free,
                       usage.free);
        }
    }
    write_text(writer, "</sizes>\n");
    for (int total = 0; total < 2; total++) { // of the heap, and of all heaps
        write_text(writer, "<total type=\"fast\" count=\"0\" size=\"0\"/>\n");
        write_text(writer, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
                   small->free_blocks, free_bytes);
        if (total) {
            write_text(writer, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n",
                       account->larger_blocks, account->larger_bytes);
        }
        write_text(writer, "<system type=\"current\" size=\"%zu\"/>\n", heap);
        write_text(writer, "<system type=\"max\" size=\"%lu\"/>\n",
                   (unsigned long)process->stats.block->peak_live_bytes);
        write_text(writer, "<aspace type=\"total\" size=\"%zu\"/>\n", heap);
        write_text(writer, "<aspace type=\"mprotect\" size=\"%zu\"/>\n%s", heap,
                   total ? "</malloc>\n" : "</heap>\n");
    }
}

size_t pw_account_write(struct pw_process *process, enum pw_account_form form, char *text,
                        size_t size) {
    struct writer writer = {text, size, 0};
    struct pw_account account;
    if (size > 0) {
        *text = 0;
    }
    if (!process->stats.block) {
        return 0;
    }
    pw_account_read(process, &account);
    if (form == PW_ACCOUNT_TEXT) {
        write_lines(&writer, process, &account);
    } else if (form == PW_ACCOUNT_JSON) {
        write_json(&writer, process, &account);
    } else {
        write_xml(&writer, process, &account);
    }
    return writer.length;
}

char *pw_account_begin(struct pw_process *process, enum pw_account_form form) {
    char *text = pw_os_map_table(ROOM);
    if (text) {
        pw_account_write(process, form, text, ROOM);
    }
    return text;
}

void pw_account_end(char *text) {
    pw_os_unmap(text, ROOM);
}
