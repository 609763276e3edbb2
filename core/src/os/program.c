// SPDX-License-Identifier: MIT
#include "os/program.h"
#include "os/os.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_SCRIPTS 4   // a script's interpreter may be a script itself, but not for ever
#define MOST_HEADERS 128 // no program has so many
#define MOST_ENTRIES 4096
#define MOST_SYMBOLS 1024 // of one bucket
#define PATH_SIZE    512  // longer ones are not followed

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#elif defined(__riscv)
#define OWN_MACHINE EM_RISCV
#else
#define OWN_MACHINE EM_NONE
#endif

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

struct program {
    int fd;
    ElfW(Ehdr) header;
    const struct pw_os_identity *loader;
    // What was read last: a program is asked for a hundred pieces that lie in a few places.
    uint64_t window_at;
    size_t window_size;
    char window[1024];
};

// --- reading -----------------------------------------------------------------

// As much as there is, of `size` bytes at most.
static size_t read_some(struct program *program, uint64_t offset, void *to, size_t size) {
    if (offset > INT64_MAX || size > sizeof program->window) {
        return 0;
    }
    uint64_t into = offset - program->window_at;
    if (into > program->window_size || program->window_size - into < size) {
        ssize_t got = pread(program->fd, program->window, sizeof program->window, (off_t)offset);
        program->window_at = offset;
        program->window_size = got > 0 ? (size_t)got : 0;
        into = 0;
    }
    size_t there = program->window_size - into;
    size = size < there ? size : there;
    memcpy(to, program->window + into, size);
    return size;
}

static bool read_at(struct program *program, uint64_t offset, void *to, size_t size) {
    return read_some(program, offset, to, size) == size;
}

// The start of a string, cut after size - 1 bytes.
static bool read_string(struct program *program, uint64_t offset, char *to, size_t size) {
    size_t got = read_some(program, offset, to, size - 1);
    to[got] = 0;
    return got > 0;
}

// What such a path names is opened only where that does nothing else (a device, a pipe).
static int open_program(int folder, const char *path) {
    struct stat status;
    if (fstatat(folder, path, &status, 0) != 0 || !S_ISREG(status.st_mode)) {
        return -1;
    }
    return openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

// --- the program's headers -----------------------------------------------------

static bool header_at(struct program *program, unsigned i, ElfW(Phdr) * header) {
    return read_at(program, program->header.e_phoff + (uint64_t)i * sizeof *header, header,
                   sizeof *header);
}

static bool find_header(struct program *program, uint32_t type, ElfW(Phdr) * header) {
    for (unsigned i = 0; i < program->header.e_phnum && i < MOST_HEADERS; i++) {
        if (header_at(program, i, header) && header->p_type == type) {
            return true;
        }
    }
    return false;
}

// Where in the file an address of the program lies; 0: nowhere.
static uint64_t offset_of(struct program *program, uint64_t address) {
    ElfW(Phdr) header;
    for (unsigned i = 0; i < program->header.e_phnum && i < MOST_HEADERS; i++) {
        if (header_at(program, i, &header) && header.p_type == PT_LOAD &&
            address - header.p_vaddr < header.p_filesz) {
            return address - header.p_vaddr + header.p_offset;
        }
    }
    return 0;
}

// --- its dynamic section ---------------------------------------------------------

struct dynamic {
    uint64_t offset, entries; // in the file
    uint64_t strings, symbols, hashes;
};

static bool read_dynamic(struct program *program, struct dynamic *dynamic) {
    ElfW(Phdr) header;
    if (!find_header(program, PT_DYNAMIC, &header)) {
        return false;
    }
    uint64_t entries = header.p_filesz / sizeof(ElfW(Dyn));
    *dynamic = (struct dynamic){
        .offset = header.p_offset,
        .entries = entries < MOST_ENTRIES ? entries : MOST_ENTRIES,
    };
    for (uint64_t i = 0; i < dynamic->entries; i++) {
        ElfW(Dyn) entry;
        if (!read_at(program, dynamic->offset + i * sizeof entry, &entry, sizeof entry)) {
            return false;
        }
        if (entry.d_tag == DT_NULL) {
            dynamic->entries = i;
        } else if (entry.d_tag == DT_STRTAB) {
            dynamic->strings = offset_of(program, entry.d_un.d_ptr);
        } else if (entry.d_tag == DT_SYMTAB) {
            dynamic->symbols = offset_of(program, entry.d_un.d_ptr);
        } else if (entry.d_tag == DT_GNU_HASH) {
            dynamic->hashes = offset_of(program, entry.d_un.d_ptr);
        }
    }
    return dynamic->strings != 0;
}

static bool needs_sanitizer(struct program *program, const struct dynamic *dynamic) {
    for (uint64_t i = 0; i < dynamic->entries; i++) {
        ElfW(Dyn) entry;
        char name[32];
        if (!read_at(program, dynamic->offset + i * sizeof entry, &entry, sizeof entry)) {
            return false;
        }
        if (entry.d_tag == DT_NEEDED &&
            read_string(program, dynamic->strings + entry.d_un.d_val, name, sizeof name) &&
            pw_os_is_sanitizer(name)) {
            return true;
        }
    }
    return false;
}

static uint32_t hash_of(const char *name) {
    uint32_t hash = 5381;
    while (*name) {
        hash = hash * 33 + (unsigned char)*name++;
    }
    return hash;
}

static bool is_symbol(struct program *program, const struct dynamic *dynamic, uint32_t number,
                      const char *name) {
    ElfW(Sym) symbol;
    char found[32];
    return read_at(program, dynamic->symbols + number * sizeof symbol, &symbol, sizeof symbol) &&
           read_string(program, dynamic->strings + symbol.st_name, found, sizeof found) &&
           strcmp(found, name) == 0;
}

// Does the program itself define the function, for other modules to find?
static bool defines(struct program *program, const struct dynamic *dynamic, const char *name) {
    uint32_t sizes[4], chain, word; // buckets, first symbol, words of the filter, its shift
    if (!dynamic->hashes || !dynamic->symbols ||
        !read_at(program, dynamic->hashes, sizes, sizeof sizes) || sizes[0] == 0) {
        return false;
    }
    uint32_t hash = hash_of(name);
    uint64_t buckets = dynamic->hashes + sizeof sizes + (uint64_t)sizes[2] * sizeof(ElfW(Addr));
    uint64_t chains = buckets + (uint64_t)sizes[0] * sizeof chain;
    if (!read_at(program, buckets + (uint64_t)(hash % sizes[0]) * sizeof chain, &chain,
                 sizeof chain) ||
        chain < sizes[1]) {
        return false;
    }
    for (unsigned i = 0; i < MOST_SYMBOLS; i++, chain++) {
        if (!read_at(program, chains + (uint64_t)(chain - sizes[1]) * sizeof word, &word,
                     sizeof word)) {
            return false;
        }
        if ((word | 1) == (hash | 1) && is_symbol(program, dynamic, chain, name)) {
            return true;
        }
        if (word & 1) {
            return false; // the bucket's last
        }
    }
    return false;
}

// A sanitizer that is linked into the program shows its functions to the libraries.
static bool has_sanitizer(struct program *program) {
    static const char *const functions[] = {"__asan_init", "__tsan_init", "__msan_init",
                                            "__hwasan_init"};
    struct dynamic dynamic;
    if (!read_dynamic(program, &dynamic)) {
        return false;
    }
    bool found = needs_sanitizer(program, &dynamic);
    for (size_t i = 0; !found && i < sizeof functions / sizeof *functions; i++) {
        found = defines(program, &dynamic, functions[i]);
    }
    return found;
}

// --- what it is --------------------------------------------------------------------

static bool is_own_loader(struct program *program, const ElfW(Phdr) * header) {
    char path[PATH_SIZE];
    if (header->p_filesz > sizeof path || header->p_filesz == 0 ||
        !read_at(program, header->p_offset, path, header->p_filesz) ||
        path[header->p_filesz - 1] != 0) {
        return true; // in doubt
    }
    struct pw_os_identity found = pw_os_identity_of(path);
    if (!found.number || !program->loader->number) {
        const char *slash = strrchr(path, '/');
        return strncmp(slash ? slash + 1 : path, "ld-linux", strlen("ld-linux")) == 0;
    }
    return found.device == program->loader->device && found.number == program->loader->number;
}

static bool binary_bears(struct program *program) {
    const ElfW(Ehdr) *header = &program->header;
    ElfW(Phdr) interpreter;
    if (header->e_ident[EI_CLASS] != OWN_CLASS ||
        (OWN_MACHINE != EM_NONE && header->e_machine != OWN_MACHINE)) {
        return false; // the loader there would complain
    }
    if (header->e_phentsize != sizeof(ElfW(Phdr)) ||
        !find_header(program, PT_INTERP, &interpreter)) {
        return true;
    }
    return is_own_loader(program, &interpreter) && !has_sanitizer(program);
}

// The path after #!, in place. False: there is none, or it is too long.
static bool interpreter_of(char *line, size_t size, const char **path) {
    char *start = line + 2;
    start += strspn(start, " \t");
    size_t length = strcspn(start, " \t\n");
    bool whole = length > 0 && start + length < line + size - 1;
    start[length] = 0;
    *path = start;
    return whole;
}

static bool file_bears(int fd, const struct pw_os_identity *loader, int scripts);

static bool path_bears(int folder, const char *path, const struct pw_os_identity *loader,
                       int scripts) {
    int fd = open_program(folder, path);
    bool bears = fd < 0 || file_bears(fd, loader, scripts);
    if (fd >= 0) {
        close(fd);
    }
    return bears;
}

static bool file_bears(int fd, const struct pw_os_identity *loader, int scripts) {
    struct program program = {.fd = fd, .loader = loader};
    char line[256];
    const char *interpreter;
    if (!read_string(&program, 0, line, sizeof line)) {
        return true;
    }
    if (line[0] == '#' && line[1] == '!') {
        return scripts == 0 || !interpreter_of(line, sizeof line, &interpreter) ||
               path_bears(AT_FDCWD, interpreter, loader, scripts - 1);
    }
    if (memcmp(line, ELFMAG, SELFMAG) != 0 ||
        !read_at(&program, 0, &program.header, sizeof program.header)) {
        return true;
    }
    return binary_bears(&program);
}

// --- what others call -----------------------------------------------------------------

struct pw_os_identity pw_os_identity_of(const char *path) {
    struct stat status;
    int saved = errno;
    bool known = stat(path, &status) == 0;
    errno = saved;
    return known ? (struct pw_os_identity){status.st_dev, status.st_ino}
                 : (struct pw_os_identity){0, 0};
}

// To read a file is a point where a thread can be cancelled; to start a program is none.
bool pw_os_program_at_bears(int folder, const char *path, const struct pw_os_identity *loader) {
    int saved = errno, cancel = pw_os_cancel_hold();
    bool bears = path_bears(folder, path, loader, MOST_SCRIPTS);
    pw_os_cancel_restore(cancel);
    errno = saved;
    return bears;
}

// A descriptor that only stands for a path (O_PATH) cannot be read.
static bool link_bears(int fd, const struct pw_os_identity *loader) {
    char path[] = "/proc/self/fd/..........", *digit = path + sizeof path - 1;
    size_t fixed = strlen("/proc/self/fd/"), digits = 0;
    for (int rest = fd; rest > 0 || digits == 0; rest /= 10, digits++) {
        *--digit = (char)('0' + rest % 10);
    }
    memmove(path + fixed, digit, digits + 1);
    return path_bears(AT_FDCWD, path, loader, MOST_SCRIPTS);
}

bool pw_os_program_bears(int fd, const struct pw_os_identity *loader) {
    int saved = errno, cancel = pw_os_cancel_hold();
    char byte;
    bool readable = pread(fd, &byte, 1, 0) == 1;
    bool bears = readable || fd < 0 ? file_bears(fd, loader, MOST_SCRIPTS) : link_bears(fd, loader);
    pw_os_cancel_restore(cancel);
    errno = saved;
    return bears;
}

// The next folder's file of this name; *list moves on. False: no more, or the path is too long.
static bool next_candidate(const char **list, const char *name, char *path) {
    size_t length = strcspn(*list, ":"), name_length = strlen(name);
    if (length + 1 + name_length + 1 > PATH_SIZE) {
        return false;
    }
    memcpy(path, *list, length);
    path[length] = '/';
    memcpy(path + length + (length > 0), name, name_length + 1); // an empty one: this folder
    *list += length + ((*list)[length] == ':');
    return true;
}

bool pw_os_program_named_bears(const char *name, const struct pw_os_identity *loader) {
    const char *list = getenv("PATH");
    char path[PATH_SIZE];
    if (strchr(name, '/')) {
        return pw_os_program_at_bears(AT_FDCWD, name, loader);
    }
    list = list ? list : "/bin:/usr/bin";
    for (bool more = true; more;) {
        more = strchr(list, ':') != NULL;
        if (!next_candidate(&list, name, path)) {
            return true;
        }
        int saved = errno;
        bool found = access(path, X_OK) == 0;
        errno = saved;
        if (found) {
            return pw_os_program_at_bears(AT_FDCWD, path, loader);
        }
    }
    return true;
}

bool pw_os_is_sanitizer(const char *file_name) {
    static const char *const starts[] = {
        "libasan.so",       "libtsan.so",        "liblsan.so",       "libmsan.so",
        "libhwasan.so",     "libclang_rt.asan",  "libclang_rt.tsan", "libclang_rt.lsan",
        "libclang_rt.msan", "libclang_rt.hwasan"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (strncmp(file_name, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool pw_os_exists(const char *path) {
    int saved = errno;
    bool exists = access(path, F_OK) == 0;
    errno = saved;
    return exists;
}
