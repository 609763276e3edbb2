// SPDX-License-Identifier: MIT
//
// Functions of the C library that give blocks, or take them: what they give may be freed and
// resized, and what they are given they may resize.
#include "contract.h"

#include <argz.h>
#include <dirent.h>
#include <dlfcn.h>
#include <envz.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <gnu/lib-names.h>
#include <iconv.h>
#include <limits.h>
#include <link.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <obstack.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

#define LONG (300 * KILOBYTE)

// A block from elsewhere is like one of malloc's.
static void take(void *block, size_t size) {
    CHECK(block && malloc_usable_size(block) >= size);
    unsigned char first = size ? *(unsigned char *)block : 0;
    block = got(realloc(block, size + LONG), size + LONG);
    CHECK(size == 0 || *(unsigned char *)block == first);
    memset(block, 1, size + LONG);
    free(block);
}

// --- strings -------------------------------------------------------------------------

static char *long_text(size_t length) {
    char *text = got(malloc(length + 1), length + 1);
    memset(text, 'x', length);
    text[length] = 0;
    return text;
}

static void strings(void) {
    for (size_t length = 0; length <= 2 * MEGABYTE; length = length * 8 + 7) {
        char *text = long_text(length), *copy = strdup(text);
        CHECK(copy && strcmp(copy, text) == 0);
        take(copy, length + 1);
        copy = strndup(text, length / 2);
        CHECK(copy && strlen(copy) == length / 2);
        take(copy, length / 2 + 1);
        free(text);
    }
    wchar_t *wide = wcsdup(L"wide");
    CHECK(wide && wcscmp(wide, L"wide") == 0);
    take(wide, 5 * sizeof(wchar_t));
}

static void printed(void) {
    for (int width = 1; width < 3000000; width = width * 6 + 1) {
        char *text = NULL;
        CHECK(asprintf(&text, "%*d", width, 7) == width && text[width - 1] == '7');
        take(text, (size_t)width + 1);
        text = got(malloc((size_t)width + 1), (size_t)width + 1);
        CHECK(snprintf(text, (size_t)width + 1, "%2$*1$d%3$s", width, 5, "") == width);
        free(text);
    }
}

static void scanned(void) {
    char *word = NULL, *text = long_text(LONG);
    CHECK(sscanf(text, "%ms", &word) == 1 && strcmp(word, text) == 0);
    take(word, LONG + 1);
    CHECK(sscanf("abc def", "%m[a-c]", &word) == 1 && strcmp(word, "abc") == 0);
    take(word, 4);
    free(text);
}

// --- streams -------------------------------------------------------------------------

static FILE *stream_of_lines(size_t longest) {
    FILE *stream = tmpfile();
    CHECK(stream);
    for (size_t length = 1; length <= longest; length = length * 5 + 2) {
        for (size_t i = 0; i < length; i++) {
            putc('a' + (int)(length % 26), stream);
        }
        putc('\n', stream);
    }
    rewind(stream);
    return stream;
}

static void lines_into(char *line, size_t size) {
    FILE *stream = stream_of_lines(2 * MEGABYTE);
    ssize_t length = 0, before = 0;
    while ((length = getline(&line, &size, stream)) > 0) {
        CHECK(length > before && size > (size_t)length);
        CHECK(is_all(line, (size_t)length - 1, (unsigned char)line[0]) && line[length - 1] == '\n');
        CHECK(malloc_usable_size(line) >= size);
        before = length;
    }
    take(line, size);
    fclose(stream);
}

static void lines(void) {
    lines_into(NULL, 0);
    lines_into(got(malloc(10), 10), 10);
    lines_into(got(malloc(200 * KILOBYTE), 200 * KILOBYTE), 200 * KILOBYTE);
    char *field = NULL;
    size_t size = 0;
    FILE *stream = fmemopen((char[]){"a;bc;"}, 5, "r");
    CHECK(stream && getdelim(&field, &size, ';', stream) == 2);
    CHECK(getdelim(&field, &size, ';', stream) == 3 && strcmp(field, "bc;") == 0);
    fclose(stream);
    free(field);
}

static void memory_streams(void) {
    for (size_t length = 10; length < 3 * MEGABYTE; length *= 12) {
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);
        CHECK(stream);
        for (size_t i = 0; i < length; i++) {
            putc((int)('a' + i % 20), stream);
        }
        CHECK(fclose(stream) == 0 && size == length && text[length] == 0);
        CHECK(text[length - 1] == (char)('a' + (length - 1) % 20));
        take(text, size + 1);
    }
    wchar_t *wide = NULL;
    size_t count = 0;
    FILE *stream = open_wmemstream(&wide, &count);
    CHECK(stream);
    for (unsigned i = 0; i < 50000; i++) {
        fputwc(L'w', stream);
    }
    CHECK(fclose(stream) == 0 && count == 50000);
    take(wide, (count + 1) * sizeof(wchar_t));
}

static void buffers(void) {
    for (size_t size = 64; size <= 2 * MEGABYTE; size *= 8) {
        char *buffer = got(malloc(size), size), *line = NULL;
        size_t room = 0;
        FILE *stream = tmpfile();
        CHECK(stream && setvbuf(stream, buffer, _IOFBF, size) == 0);
        for (unsigned i = 0; i < 3000; i++) {
            fprintf(stream, "line %u\n", i);
        }
        rewind(stream);
        for (unsigned i = 0; i < 3000; i++) {
            unsigned number = 0;
            CHECK(getline(&line, &room, stream) > 0 && sscanf(line, "line %u", &number) == 1);
            CHECK(number == i);
        }
        fclose(stream);
        free(buffer);
        free(line);
    }
}

// read and write by the kernel.
static void system_calls(void) {
    int way[2];
    CHECK(pipe(way) == 0);
    for (size_t size = 1; size <= 32 * KILOBYTE; size *= 2) {
        unsigned char *from = got(malloc(size), size), *to = got(calloc(1, size), size);
        fill(from, size, size);
        CHECK(write(way[1], from, size) == (ssize_t)size);
        struct iovec parts[] = {{to, size / 2}, {to + size / 2, size - size / 2}};
        CHECK(readv(way[0], parts, 2) == (ssize_t)size && holds(to, size, size));
        free(from);
        free(to);
    }
    close(way[0]);
    close(way[1]);
    int zeros = open("/dev/zero", O_RDONLY);
    unsigned char *block = got(malloc(4 * MEGABYTE), 4 * MEGABYTE);
    memset(block, 1, 4 * MEGABYTE);
    CHECK(zeros >= 0 && read(zeros, block, 4 * MEGABYTE) == (ssize_t)(4 * MEGABYTE));
    CHECK(is_all(block, 4 * MEGABYTE, 0));
    close(zeros);
    free(block);
}

// --- files ---------------------------------------------------------------------------

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    free(strdup(path));
    return 0;
}

static void paths(void) {
    char *path = realpath("/usr/../usr/.", NULL);
    CHECK(path && strcmp(path, "/usr") == 0);
    take(path, 5);
    path = canonicalize_file_name("/");
    CHECK(path && strcmp(path, "/") == 0);
    take(path, 2);
    path = getcwd(NULL, 0);
    CHECK(path && path[0] == '/');
    take(path, strlen(path) + 1);
    path = getcwd(NULL, LONG);
    take(path, LONG);
    path = get_current_dir_name();
    take(path, 2);
    CHECK(!realpath("/no/such/path", NULL));
}

static void folders(void) {
    struct dirent **entries = NULL;
    int count = scandir("/usr", &entries, visible, alphasort);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        CHECK(malloc_usable_size(entries[i]) >= strlen(entries[i]->d_name));
        free(entries[i]);
    }
    take(entries, (size_t)count * sizeof *entries);
    glob_t found;
    CHECK(glob("/usr/*", GLOB_MARK, NULL, &found) == 0 && found.gl_pathc > 0);
    CHECK(glob("/etc/*", GLOB_APPEND, NULL, &found) == 0);
    globfree(&found);
    CHECK(nftw("/etc", visit, 10, FTW_PHYS) == 0);
    DIR *folder = opendir("/usr");
    CHECK(folder && readdir(folder));
    CHECK(closedir(folder) == 0);
}

// --- data ----------------------------------------------------------------------------

#define obstack_chunk_alloc malloc
#define obstack_chunk_free  free

static void obstacks(void) {
    struct obstack stack;
    obstack_init(&stack);
    obstack_chunk_size(&stack) = 9000;
    char *first = obstack_copy0(&stack, "first", 5);
    for (size_t round = 1; round < 400; round++) {
        void *block = obstack_alloc(&stack, (int)(round * 37));
        fill(block, round * 37, round);
        obstack_blank(&stack, 10);
        for (unsigned i = 0; i < 100; i++) {
            obstack_grow(&stack, "grown", 5);
        }
        char *grown = obstack_finish(&stack);
        CHECK(memcmp(grown + 10 + 495, "grown", 5) == 0 && holds(block, round * 37, round));
        if (round % 3 == 0) {
            obstack_free(&stack, block);
        }
    }
    void *large = obstack_alloc(&stack, (int)MEGABYTE);
    memset(large, 1, MEGABYTE);
    CHECK(obstack_printf(&stack, "%050000d", 1) == 50000);
    CHECK(strcmp(first, "first") == 0);
    obstack_free(&stack, NULL);
    free(got(malloc(LONG), LONG));
}

static void argument_vectors(void) {
    char *all = NULL;
    size_t length = 0;
    for (unsigned i = 0; i < 20000; i++) {
        CHECK(argz_add(&all, &length, i % 2 ? "odd" : "even") == 0);
    }
    CHECK(argz_count(all, length) == 20000);
    CHECK(argz_insert(&all, &length, all, "first") == 0 && strcmp(all, "first") == 0);
    argz_delete(&all, &length, all);
    CHECK(strcmp(all, "even") == 0 && envz_add(&all, &length, "name", "value") == 0);
    CHECK(strcmp(envz_get(all, length, "name"), "value") == 0);
    take(all, length);
    free(got(malloc(LONG), LONG));
}

static void expressions(void) {
    for (unsigned i = 0; i < 20; i++) {
        regex_t pattern;
        regmatch_t match[3];
        char *text = long_text(5000);
        text[4000] = '1';
        CHECK(regcomp(&pattern, "(x*)([0-9]|é)x+$", REG_EXTENDED) == 0);
        CHECK(regexec(&pattern, text, 3, match, 0) == 0 && match[2].rm_so == 4000);
        regfree(&pattern);
        free(text);
    }
    wordexp_t words;
    CHECK(wordexp("a 'b c' ~", &words, WRDE_NOCMD) == 0 && words.we_wordc == 3);
    wordfree(&words);
    free(got(malloc(LONG), LONG));
}

static int by_value(const void *left, const void *right) {
    return strcmp(left, right);
}

static void trees(void) {
    void *root = NULL;
    for (unsigned i = 0; i < 2000; i++) {
        char *text = NULL;
        CHECK(asprintf(&text, "%u", i * 7919 % 2000) > 0 && tsearch(text, &root, by_value));
    }
    CHECK(tfind("1234", &root, by_value));
    tdestroy(root, free);
    CHECK(hcreate(3000) != 0);
    hdestroy();
    free(got(malloc(LONG), LONG));
}

static int by_number(const void *left, const void *right) {
    free(malloc(10));
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void sorted(void) {
    for (size_t count = 10; count <= 200000; count *= 20) {
        struct random random = {count};
        uint64_t *numbers = got(calloc(count, sizeof *numbers), count * sizeof *numbers);
        for (size_t i = 0; i < count; i++) {
            numbers[i] = random_below(&random, UINT64_MAX);
        }
        qsort(numbers, count, sizeof *numbers, by_number);
        for (size_t i = 1; i < count; i++) {
            CHECK(numbers[i - 1] <= numbers[i]);
        }
        free(numbers);
    }
    free(got(malloc(LONG), LONG));
}

static void environment(void) {
    char name[30], *mine = got(malloc(LONG), LONG);
    snprintf(mine, LONG, "CONTRACT_OWN=%0200000d", 3);
    CHECK(putenv(mine) == 0);
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "CONTRACT_%u", i);
        CHECK(setenv(name, i % 2 ? "one" : "another", 1) == 0);
    }
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "CONTRACT_%u", i);
        CHECK(strcmp(getenv(name), i % 2 ? "one" : "another") == 0 && unsetenv(name) == 0);
    }
    CHECK(strlen(getenv("CONTRACT_OWN")) == 200000 && unsetenv("CONTRACT_OWN") == 0);
    free(mine);
}

static void locales_and_names(void) {
    char *old = strdup(setlocale(LC_ALL, NULL));
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    if (locale) {
        freelocale(duplocale(locale));
        freelocale(locale);
    }
    CHECK(old && setlocale(LC_ALL, "C") && setlocale(LC_ALL, old));
    take(old, strlen(old) + 1);
    iconv_t converter = iconv_open("UTF-16", "ISO-8859-1");
    if (converter != (iconv_t)-1) {
        iconv_close(converter);
    }
    struct addrinfo *addresses = NULL, hints = {.ai_flags = AI_NUMERICHOST};
    CHECK(getaddrinfo("127.0.0.1", "80", &hints, &addresses) == 0);
    freeaddrinfo(addresses);
}

// --- the allocator's own -------------------------------------------------------------

static int allocate_for_module(struct dl_phdr_info *info, size_t size, void *count) {
    (void)size;
    char *name = strdup(info->dlpi_name);
    CHECK(name);
    free(name);
    void *block = got(malloc(LONG), LONG);
    block = got(realloc(block, 3 * LONG), 3 * LONG);
    free(block);
    ++*(unsigned *)count;
    return 0;
}

static void under_the_loaders_lock(void) {
    unsigned count = 0;
    CHECK(dl_iterate_phdr(allocate_for_module, &count) == 0 && count > 1);
}

static void tuning(void) {
    void *block = got(malloc(LONG), LONG);
    fill(block, LONG, 1);
    CHECK(mallopt(M_MXFAST, 0) == 1);
    free(got(malloc(30), 30));
    CHECK(mallopt(M_PERTURB, 0x55) == 1);
    unsigned char *zeros = got(calloc(1, 5000), 5000);
    CHECK(is_all(zeros, 5000, 0));
    free(zeros);
    zeros = got(calloc(1, LONG), LONG);
    CHECK(is_all(zeros, LONG, 0));
    free(zeros);
    CHECK(mallopt(M_PERTURB, 0) == 1 && mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    free(got(malloc(LONG), LONG));
    CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1 && mallopt(M_ARENA_MAX, 2) == 1);
    CHECK(holds(block, LONG, 1));
    free(block);
}

static void told(void) {
    char *text = NULL;
    size_t size = 0;
    void *block = got(malloc(LONG), LONG), *small = got(malloc(50), 50);
    fill(block, LONG, 1);
    malloc_trim(0); // what a thread's cache holds counts as in use, and may go at any time
    struct mallinfo2 numbers = mallinfo2();
    // But for policy general the C library tells, and takes blocks of ours off its own if it is
    // called by its own name to free them: their number is then below zero.
    CHECK(numbers.hblks > SIZE_MAX / 2 || numbers.uordblks <= numbers.arena + numbers.hblkhd);
    static void *many[2000];
    for (int i = 0; i < 2000; i++) {
        many[i] = got(malloc(500), 500);
    }
    struct mallinfo2 more = mallinfo2();
    CHECK(more.uordblks + more.hblkhd >= numbers.uordblks + numbers.hblkhd + 2000 * 500);
    CHECK(more.hblks > SIZE_MAX / 2 || more.uordblks <= more.arena + more.hblkhd);
    for (int i = 0; i < 2000; i++) {
        free(many[i]);
    }
    CHECK(mallinfo2().uordblks + 500000 < more.uordblks);
    FILE *stream = open_memstream(&text, &size);
    CHECK(stream && malloc_info(0, stream) == 0 && fclose(stream) == 0);
    CHECK(strncmp(text, "<malloc", 7) == 0 && malloc_info(1, stdout) != 0);
    free(text);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
    CHECK(holds(block, LONG, 1));
    free(small);
    free(block);
    malloc_trim(4096);
}

// Older programs and libraries call these; free and realloc take what they give.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_valloc(size_t size);
extern void *__libc_pvalloc(size_t size);
extern void __libc_free(void *block);

static void own_names(void) {
    for (size_t i = 0; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
        void *blocks[] = {
            __libc_malloc(edges[i]),        __libc_calloc(1, edges[i]),
            __libc_memalign(128, edges[i]), __libc_valloc(edges[i]),
            __libc_pvalloc(edges[i]),       __libc_realloc(__libc_malloc(3), edges[i] + 1),
            __libc_malloc(edges[i] + 1)};
        for (unsigned k = 0; k < 6; k++) {
            fill(blocks[k], edges[i], k);
            CHECK(malloc_usable_size(blocks[k]) >= edges[i]);
            blocks[k] = got(realloc(blocks[k], 2 * edges[i] + 2), 2 * edges[i] + 2);
            CHECK(holds(blocks[k], edges[i], k));
            free(blocks[k]);
        }
        __libc_free(blocks[6]);
    }
}

// The C library's functions as a handle of its own finds them: ctypes, FFI. A program whose tables
// alone were changed gets the C library's there, and so does one on other processors.
static void by_handle(void) {
    void *library = dlopen(LIBC_SO, RTLD_LAZY);
    CHECK(library);
    CHECK(dlsym(library, "no such function") == NULL && dlerror() != NULL);
    CHECK(dlsym(RTLD_NEXT, "malloc") != NULL && dlsym(RTLD_DEFAULT, "free") != NULL);
    void (*release)(void *) = (void (*)(void *))dlsym(library, "free");
    void *(*enlarge)(void *, size_t) = (void *(*)(void *, size_t))dlsym(library, "realloc");
    size_t (*usable)(void *) = (size_t(*)(void *))dlsym(library, "malloc_usable_size");
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    CHECK(release && enlarge && usable && make && dlerror() == NULL);
    free(got(malloc(LONG), LONG));
#if defined(__x86_64__) || defined(__aarch64__)
    if (is_hooked) {
        return;
    }
    for (size_t i = 0; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
        void *block = got(malloc(edges[i]), edges[i]), *text = strdup("text");
        fill(block, edges[i], 1);
        CHECK(usable(block) >= edges[i] && usable(text) >= 5);
        block = got(enlarge(block, 2 * edges[i] + 2), 2 * edges[i] + 2);
        CHECK(holds(block, edges[i], 1));
        release(block);
        release(text);
        free(got(make(edges[i]), edges[i]));
    }
#endif
}

const struct promise library_promises[] = {
    {"strings", "strdup, strndup, wcsdup", strings, 0},
    {"printed", "asprintf, and printf with much to pad", printed, 0},
    {"scanned", "scanf with m", scanned, 0},
    {"lines", "getline and getdelim resize the caller's block", lines, 0},
    {"memory-streams", "open_memstream, open_wmemstream", memory_streams, 0},
    {"buffers", "setvbuf with a block", buffers, 0},
    {"system-calls", "the kernel reads from blocks and writes to them", system_calls, 0},
    {"paths", "realpath(NULL), getcwd(NULL) and their like", paths, 0},
    {"folders", "scandir, glob, nftw, opendir", folders, 0},
    {"obstacks", "obstacks on malloc and free", obstacks, 0},
    {"argument-vectors", "argz and envz", argument_vectors, 0},
    {"expressions", "regcomp, wordexp", expressions, 0},
    {"trees", "tsearch, tdestroy with free, hcreate", trees, 0},
    {"sorted", "qsort, whose comparison allocates", sorted, 0},
    {"environment", "putenv, setenv", environment, 0},
    {"locales-and-names", "setlocale, newlocale, iconv_open, getaddrinfo", locales_and_names, 0},
    {"under-the-loaders-lock", "a callback of dl_iterate_phdr allocates", under_the_loaders_lock,
     0},
    {"tuning", "mallopt breaks no promise", tuning, ALONE},
    {"told", "mallinfo2, malloc_info, malloc_trim", told, 0},
    {"by-handle", "the C library's own functions take blocks of malloc", by_handle, 0},
    {"own-names", "blocks of __libc_malloc and its like are freed by free", own_names, 0},
    {0},
};
