// Programs whose pinning call site is known: pinning SHAPE [elsewhere]. Each makes short-lived
// blocks, and among them a few that stay, from one function whose name begins with keep_. With
// `elsewhere` that function takes its blocks from a mapping of its own; everything else is the
// same. Prints the resident kilobytes when the short-lived blocks are gone and malloc_trim has
// given back what can go.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <pthread.h>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static bool is_elsewhere;
static char *region;
static size_t region_used;
static constexpr size_t REGION = size_t(64) << 20;

// What is asked for of the mapping instead, aligned as malloc's are.
static void *from_region(size_t size) {
    size_t at = __atomic_fetch_add(&region_used, (size + 15) & ~size_t(15), __ATOMIC_RELAXED);
    return region + at;
}

// ------------------------------------------------------------------------------------------

APART static char *scratch(size_t size) {
    char *block = static_cast<char *>(malloc(size));
    memset(block, 1, size);
    return block;
}

// Long-lived and dense: no page is pinned by it.
APART static char *configuration(size_t size) {
    char *block = static_cast<char *>(malloc(size));
    memset(block, 2, size);
    return block;
}

APART static char *keep_session(size_t size) {
    char *block = static_cast<char *>(is_elsewhere ? from_region(size) : malloc(size));
    memset(block, 3, size);
    return block;
}

static void configure() {
    for (int i = 0; i < 20000; i++)
        configuration(100);
}

// `count` short-lived blocks, a session after each `every`.
static void serve(int count, int every, size_t short_lived, size_t session) {
    std::vector<char *> blocks;
    blocks.reserve(count);
    for (int i = 0; i < count; i++) {
        blocks.push_back(scratch(short_lived));
        if (i % every == 0)
            keep_session(session);
    }
    for (char *block : blocks)
        free(block);
    // The thread goes on working: this lets glibc put free blocks together, and give back what is
    // above the last one.
    free(scratch(100000));
}

static void equal() {
    configure();
    serve(120000, 30, 176, 176);
}

static void sizes() {
    configure();
    serve(300000, 60, 64, 200);
}

// ------------------------------------------------------------------------------------------

static pthread_barrier_t all_served, measured;

static void *thread_main(void *) {
    serve(40000, 40, 120, 72);
    pthread_barrier_wait(&all_served);
    // Its arena stays in use.
    pthread_barrier_wait(&measured);
    return nullptr;
}

static void threads_of(int count) {
    pthread_barrier_init(&all_served, nullptr, count + 1);
    pthread_barrier_init(&measured, nullptr, count + 1);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, thread_main, nullptr);
    }
    pthread_barrier_wait(&all_served);
}

static void threads() {
    configure();
    threads_of(4);
}

// Eight threads in two arenas.
static void arenas() {
    mallopt(M_ARENA_MAX, 2);
    configure();
    threads_of(8);
}

// ------------------------------------------------------------------------------------------

// A line of history that grows until it stays as it is.
APART static char *keep_history(char *line, size_t size) {
    if (is_elsewhere) {
        char *grown = static_cast<char *>(from_region(size));
        if (line != nullptr)
            memcpy(grown, line, size / 2);
        line = grown;
    } else {
        line = static_cast<char *>(realloc(line, size));
    }
    memset(line, 4, size);
    return line;
}

static void resized() {
    configure();
    std::vector<char *> blocks;
    for (int i = 0; i < 4000; i++) {
        char *line = nullptr;
        for (size_t size = 32; size <= 256; size *= 2) {
            line = keep_history(line, size);
            for (int j = 0; j < 10; j++)
                blocks.push_back(scratch(150));
        }
    }
    for (char *block : blocks)
        free(block);
}

// ------------------------------------------------------------------------------------------

typedef char *plugin_function(size_t size, void *(*allocate)(size_t));

static void *library(const char *name, const char *function) {
    void *handle = dlopen(name, RTLD_NOW);
    void *found = handle != nullptr ? dlsym(handle, function) : nullptr;
    if (found == nullptr) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return found;
}

static void plugins(const char *name) {
    configure();
    auto remember = reinterpret_cast<plugin_function *>(library(name, "keep_of_plugin"));
    auto render = reinterpret_cast<plugin_function *>(library(name, "render"));
    std::vector<char *> blocks;
    for (int i = 0; i < 80000; i++) {
        blocks.push_back(render(240, nullptr));
        if (i % 25 == 0)
            remember(90, is_elsewhere ? from_region : nullptr);
    }
    for (char *block : blocks)
        free(block);
}

// ------------------------------------------------------------------------------------------

// Nodes of a container, which the container's allocator takes.
template <class T> struct Region {
    typedef T value_type;
    Region() = default;
    template <class U> Region(const Region<U> &) {
    }
    T *allocate(size_t count) {
        return static_cast<T *>(from_region(count * sizeof(T)));
    }
    void deallocate(T *, size_t) {
    }
    template <class U> bool operator==(const Region<U> &) const {
        return true;
    }
    template <class U> bool operator!=(const Region<U> &) const {
        return false;
    }
};

struct Visit {
    char text[80];
};

static std::list<Visit> visits;
static std::list<Visit, Region<Visit>> visits_elsewhere;

APART static void keep_visit(const Visit &visit) {
    if (is_elsewhere)
        visits_elsewhere.push_back(visit);
    else
        visits.push_back(visit);
}

static void nodes() {
    configure();
    std::vector<std::string> answers;
    answers.reserve(100000);
    for (int i = 0; i < 100000; i++) {
        answers.emplace_back(160, 'a');
        if (i % 30 == 0)
            keep_visit(Visit());
    }
}

// ------------------------------------------------------------------------------------------

// Each request has buffers of 4 to 60 KB and leaves one small record.
APART static char *keep_record(size_t size) {
    char *block = static_cast<char *>(is_elsewhere ? from_region(size) : malloc(size));
    memset(block, 5, size);
    return block;
}

static void burst() {
    configure();
    std::vector<char *> blocks;
    for (int i = 0; i < 3000; i++) {
        blocks.push_back(scratch(4096 + i * 7919 % 57344));
        keep_record(300);
    }
    for (char *block : blocks)
        free(block);
}

// ------------------------------------------------------------------------------------------

static long resident_kilobytes() {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long found = 0;
    while (file != nullptr && fgets(line, sizeof line, file) != nullptr &&
           sscanf(line, "Rss: %ld", &found) != 1)
        ;
    if (file != nullptr)
        fclose(file);
    return found;
}

int main(int argc, char **argv) {
    const std::string shape = argc > 1 ? argv[1] : "";
    is_elsewhere = argc > 2 && strcmp(argv[2], "elsewhere") == 0;
    region = static_cast<char *>(
        mmap(nullptr, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (shape == "equal")
        equal();
    else if (shape == "sizes")
        sizes();
    else if (shape == "threads")
        threads();
    else if (shape == "arenas")
        arenas();
    else if (shape == "realloc")
        resized();
    else if (shape == "plugins")
        plugins((std::string(argv[0]) + ".so").c_str());
    else if (shape == "nodes")
        nodes();
    else if (shape == "burst")
        burst();
    else
        return 2;
    free(scratch(100000));
    long kept = resident_kilobytes();
    malloc_trim(0);
    printf("resident %ld kept %ld\n", resident_kilobytes(), kept);
    fflush(stdout);
    _exit(0);
}
