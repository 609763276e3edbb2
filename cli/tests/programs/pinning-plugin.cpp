#include <cstdlib>
#include <cstring>
extern "C" char *keep_of_plugin(size_t size, void *(*allocate)(size_t)) {
    char *block = static_cast<char *>(allocate != nullptr ? allocate(size) : malloc(size));
    memset(block, 6, size);
    return block;
}
extern "C" char *render(size_t size, void *(*)(size_t)) {
    char *block = static_cast<char *>(malloc(size));
    memset(block, 7, size);
    return block;
}
