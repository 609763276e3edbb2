// SPDX-License-Identifier: MIT
//
// A C++ program that loads a library whose constructor waits for a thread: the first in the process
// that calls operator new.

#include <cstdio>
#include <dlfcn.h>
#include <new>
#include <unistd.h>

int main(int count, char **words) {
    alarm(30); // else it would wait for ever
    if (count < 2 || !dlopen(words[1], RTLD_NOW | RTLD_LOCAL)) {
        std::fprintf(stderr, "%s\n", count < 2 ? "which library?" : dlerror());
        return 3;
    }
    std::puts("expect 23005 100 100");
    ::operator delete(::operator new(1));
    return 0;
}
