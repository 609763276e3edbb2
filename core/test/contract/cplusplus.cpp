// SPDX-License-Identifier: MIT
//
// What C++ makes of malloc: operators new and delete in all forms, and who builds on them.
#include "contract.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

extern "C" const struct promise *const all_promises[];

// The compiler must neither know the sizes nor leave out a pair of new and delete.
static volatile std::size_t nothing;
static void *volatile seen;

static void *shown(void *block) {
    seen = block;
    return seen;
}

// What the C++ library has allocated for us.
#define made(block, alignment, size)                                                               \
    got_aligned(block, alignment, is_hooked ? std::size_t{0} : static_cast<std::size_t>(size))

// --- operators -----------------------------------------------------------------------

static void plain_operators() {
    for (size_t i = 0; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
        size_t size = edges[i];
        void *blocks[] = {made(::operator new(size), LEAST, size),
                          made(::operator new[](size), LEAST, size),
                          made(::operator new(size, std::nothrow), LEAST, size),
                          made(::operator new[](size, std::nothrow), LEAST, size)};
        for (uint64_t k = 0; k < 4; k++) {
            fill(blocks[k], size, k);
        }
        for (uint64_t k = 0; k < 4; k++) {
            CHECK(holds(blocks[k], size, k));
        }
        ::operator delete(shown(blocks[0]));
        ::operator delete[](shown(blocks[1]), size);
        ::operator delete(shown(blocks[2]), std::nothrow);
        ::operator delete[](shown(blocks[3]), std::nothrow);
        ::operator delete(shown(::operator new(size)), size);
        ::operator delete[](shown(::operator new[](size)));
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
}

static void aligned_operators() {
    for (size_t alignment = 16; alignment <= MEGABYTE; alignment *= 4) {
        std::align_val_t value{alignment};
        for (size_t i = 0; i < edge_count && edges[i] <= MEGABYTE; i++) {
            size_t size = edges[i];
            void *one = ::operator new(size, value), *row = ::operator new[](size, value);
            void *perhaps = ::operator new(size, value, std::nothrow);
            fill(made(one, alignment, size), size, 1);
            fill(made(row, alignment, size), size, 2);
            fill(made(perhaps, alignment, size), size, 3);
            CHECK(holds(one, size, 1) && holds(row, size, 2) && holds(perhaps, size, 3));
            ::operator delete(shown(one), value);
            ::operator delete[](shown(row), size, value);
            ::operator delete(shown(perhaps), value, std::nothrow);
        }
    }
}

struct alignas(256) Aligned {
    char bytes[300];
};

static void aligned_objects() {
    std::vector<std::unique_ptr<Aligned>> all;
    for (unsigned i = 0; i < 500; i++) {
        all.emplace_back(new Aligned);
        made(all.back().get(), 256, sizeof(Aligned));
        std::memset(all.back()->bytes, static_cast<int>(i), 300);
    }
    std::unique_ptr<Aligned[]> row(new Aligned[1000]);
    made(row.get(), 256, 1000 * sizeof(Aligned));
    for (unsigned i = 0; i < 500; i++) {
        CHECK(is_all(all[i]->bytes, 300, static_cast<unsigned char>(i)));
    }
}

// --- refusals ------------------------------------------------------------------------

static unsigned asked;

static void give_up_later() {
    if (++asked == 3) {
        std::set_new_handler(nullptr);
    }
}

template <typename Function> static bool throws_bad_alloc(Function function) {
    try {
        seen = function();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void refused() {
    size_t size = SIZE_MAX / 2 - nothing;
    std::align_val_t value{4096};
    CHECK(throws_bad_alloc([=] { return ::operator new(size); }));
    CHECK(throws_bad_alloc([=] { return ::operator new[](size); }));
    CHECK(throws_bad_alloc([=] { return ::operator new(size, value); }));
    CHECK(throws_bad_alloc([=] { return ::operator new[](size, value); }));
    CHECK(throws_bad_alloc([=] { return new std::string[SIZE_MAX / 8 - nothing]; }));
    CHECK(!shown(::operator new(size, std::nothrow)));
    CHECK(!shown(::operator new[](size, std::nothrow)));
    CHECK(!shown(::operator new(size, value, std::nothrow)));
    got(std::malloc(0), 0);
}

static void handler_is_called() {
    size_t size = SIZE_MAX / 2 - nothing;
    for (unsigned i = 0; i < 2; i++) {
        asked = 0;
        std::set_new_handler(give_up_later);
        if (i == 0) {
            CHECK(throws_bad_alloc([=] { return ::operator new(size); }));
        } else {
            CHECK(!shown(::operator new(size, std::nothrow)));
        }
        CHECK(asked == 3 && !std::get_new_handler());
    }
}

// --- who builds on them --------------------------------------------------------------

static void containers() {
    std::vector<std::string> words;
    std::map<std::string, std::vector<int>> tree;
    std::unordered_map<int, std::list<double>> table;
    for (int i = 0; i < 4000; i++) {
        words.push_back(std::string(static_cast<size_t>(i % 300), 'a') + std::to_string(i));
        tree[words.back()].assign(static_cast<size_t>(i % 50), i);
        table[i % 700].push_back(i);
        if (i % 5 == 0) {
            tree.erase(words[static_cast<size_t>(i / 2)]);
        }
    }
    for (int i = 2001; i < 4000; i++) {
        const auto &found = tree.at(words[static_cast<size_t>(i)]);
        CHECK(found.size() == static_cast<size_t>(i % 50) && (found.empty() || found[0] == i));
    }
    std::string text;
    while (text.size() < 8 * MEGABYTE) {
        text += words[text.size() % words.size()];
    }
    std::string copy = text;
    text.clear();
    text.shrink_to_fit();
    CHECK(copy.size() >= 8 * MEGABYTE && copy[0] == words[0][0]);
    got(std::malloc(0), 0);
}

static void resources() {
    std::pmr::memory_resource *resource = std::pmr::new_delete_resource();
    for (size_t alignment = 1; alignment <= 64 * KILOBYTE; alignment *= 4) {
        for (size_t size = 1; size <= 2 * MEGABYTE; size *= 11) {
            void *block = resource->allocate(size, alignment);
            fill(made(block, alignment, size), size, 1);
            CHECK(holds(block, size, 1));
            resource->deallocate(block, size, alignment);
        }
    }
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::vector<std::pmr::string> words(&pool);
    for (unsigned i = 0; i < 3000; i++) {
        words.emplace_back(i % 200, 'x');
    }
    CHECK(words.back().size() == 2999 % 200);
}

static int deeper(int depth) {
    std::string here(static_cast<size_t>(depth) * 5000, 'd');
    if (depth == 40) {
        throw std::runtime_error(here);
    }
    return deeper(depth + 1) + static_cast<int>(here.size());
}

static void exceptions() {
    for (unsigned i = 0; i < 30; i++) {
        std::exception_ptr kept_one;
        try {
            deeper(0);
        } catch (...) {
            kept_one = std::current_exception();
        }
        std::thread([&] {
            try {
                std::rethrow_exception(kept_one);
            } catch (const std::runtime_error &error) {
                CHECK(std::strlen(error.what()) == 40 * 5000);
            }
        }).join();
    }
    got(std::malloc(0), 0);
}

// --- ends ----------------------------------------------------------------------------

struct Holder {
    std::vector<char> large;
    std::string text = "of a thread, or of the program";
    explicit Holder(size_t size) : large(size, 'h') {
    }
    ~Holder() {
        CHECK(is_all(large.data(), large.size(), 'h'));
        large.resize(large.size() * 2, 'h');
        std::string more = text + text;
        CHECK(more.size() == 2 * text.size());
    }
};

static void thread_locals() {
    for (unsigned i = 0; i < 40; i++) {
        std::thread([i] {
            thread_local Holder holder(i % 2 ? 300 * KILOBYTE : 300);
            thread_local std::shared_ptr<Holder> shared =
                std::make_shared<Holder>(holder.large.size());
            CHECK(shared->large.size() == holder.large.size());
        }).join();
    }
    got(std::malloc(0), 0);
}

static void shared_pointers() {
    for (unsigned i = 0; i < 30; i++) {
        auto shared = std::make_shared<Holder>(200 * KILOBYTE);
        std::thread first([copy = shared]() mutable { copy.reset(); });
        std::thread second([copy = std::move(shared)]() mutable { copy.reset(); });
        first.join();
        second.join();
    }
    got(std::malloc(0), 0);
}

// Constructed before main, and destroyed after it.
static bool says_so;

struct Late : Holder {
    Late() : Holder(900 * KILOBYTE) {
    }
    ~Late() {
        if (says_so) {
            kept();
        }
    }
};

static Late late;

static void statics() {
    static Holder one(70), another(400 * KILOBYTE);
    CHECK(late.large.size() == 900 * KILOBYTE);
    late.large.resize(MEGABYTE, 'h');
    got(late.large.data(), 0);
    says_so = true;
    std::exit(0);
}

static const struct promise cplusplus_promises[] = {
    {"plain-operators", "new and delete, rows, nothrow, sized", plain_operators, UNSERVED},
    {"aligned-operators", "new and delete with an alignment", aligned_operators, UNSERVED},
    {"aligned-objects", "objects with an alignment of their own", aligned_objects, UNSERVED},
    {"operators-refuse", "what cannot be had throws bad_alloc, or is null", refused, UNSERVED},
    {"handler-is-called", "the new handler is asked until it gives up", handler_is_called,
     UNSERVED},
    {"containers", "strings, vectors, maps", containers, UNSERVED},
    {"resources", "memory resources", resources, UNSERVED},
    {"exceptions", "exceptions, handed to another thread", exceptions, UNSERVED},
    {"thread-locals", "thread_local objects that allocate when they end", thread_locals, UNSERVED},
    {"shared-pointers", "the last of several threads destroys", shared_pointers, UNSERVED},
    {"statics", "static objects that allocate when they end", statics, ENDS},
    {nullptr, nullptr, nullptr, 0},
};

const struct promise *const all_promises[] = {cplusplus_promises, nullptr};
