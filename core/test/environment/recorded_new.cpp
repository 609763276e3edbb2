// SPDX-License-Identifier: MIT
//
// A C++ library for a program to load in a scope of its own; with OWN_OPERATORS one that defines
// its own operators new and delete, and with WAITS_FOR_THREAD one whose constructor waits for a
// thread that calls them.

#include <cstddef>
#include <cstdlib>
#include <new>
#include <pthread.h>

static int own_operators; // calls of them

#ifdef OWN_OPERATORS
void *operator new(std::size_t size) {
    own_operators++;
    return static_cast<char *>(std::malloc(size + 32)) + 32; // no block for free() alone
}

void operator delete(void *block) noexcept {
    own_operators++;
    std::free(static_cast<char *>(block) - 32);
}

void operator delete(void *block, std::size_t) noexcept {
    ::operator delete(block);
}
#endif

extern "C" {

void *new_block(std::size_t size) {
    return ::operator new(size);
}

void delete_block(void *block) {
    ::operator delete(block);
}

// Each form once, but the plain one; 0: all are as they should be.
int use_each_form(std::size_t size) {
    struct alignas(64) aligned {
        char bytes[23040];
    };
    char *volatile one = new char[size], *volatile two = new (std::nothrow) char[size];
    aligned *volatile three = new aligned;
    bool whole = one && two && reinterpret_cast<std::size_t>(three) % 64 == 0;
    delete[] one;
    ::operator delete[](two, std::nothrow);
    delete three;
    return whole ? 0 : 1;
}

// 0: what cannot be had is refused as C++ does.
int ask_for_too_much(std::size_t size) {
    if (::operator new(size, std::nothrow)) {
        return 1;
    }
    try {
        new_block(size);
    } catch (const std::bad_alloc &) {
        return 0;
    }
    return 2;
}

int own_calls(void) {
    return own_operators;
}
}

#ifdef WAITS_FOR_THREAD
static void *work(void *unused) {
    for (int i = 0; i < 100; i++) {
        delete_block(new_block(23005));
    }
    return unused;
}

__attribute__((constructor)) static void wait_for_thread() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr) != 0 ||
        pthread_join(thread, nullptr) != 0) {
        std::abort();
    }
}
#endif
