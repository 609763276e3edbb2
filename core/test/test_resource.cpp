// SPDX-License-Identifier: MIT
//
// The C++ interface, as its users use it.
#include "pagewise_resource.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);         \
            std::abort();                                                                          \
        }                                                                                          \
    } while (0)

static pw_heap_statistics statistics_of(const pagewise::transaction_resource &memory) {
    pw_heap_statistics now;
    pw_heap_statistics_read(memory.native_handle(), &now);
    return now;
}

// With PW_HEAP_CHECKED any mismatch between what is allocated and freed ends the program.
static void containers_give_back_what_they_took(unsigned flags) {
    pw_heap_options options{};
    options.flags = flags;
    pagewise::transaction_resource memory(options);
    {
        pagewise::transaction request(memory);
        std::pmr::map<std::pmr::string, std::pmr::vector<double>> table(&memory);
        for (int i = 0; i < 2000; i++) {
            std::pmr::string key("a key that is longer than short strings are: ", &memory);
            key += std::to_string(i % 300);
            table[key].push_back(i);
            if (i % 7 == 0) {
                table.erase(key);
            }
        }
        std::pmr::vector<char> large(5 << 20, 'x', &memory);
        large.resize(9 << 20);
        CHECK(table.size() > 200 && large.back() == 0);
    }
    CHECK(statistics_of(memory).transactions == 1 && statistics_of(memory).segment_bytes == 0);
}

struct alignas(64) line {
    char bytes[64];
};
struct alignas(16) pair {
    std::int64_t first;
};

static void allocators_keep_alignment(unsigned flags) {
    pw_heap_options options{};
    options.flags = flags;
    pagewise::transaction_resource memory(options);
    std::vector<line, pagewise::allocator<line>> lines{pagewise::allocator<line>(memory)};
    std::vector<pair, pagewise::allocator<pair>> pairs{pagewise::allocator<pair>(memory)};
    for (int i = 0; i < 100; i++) {
        lines.emplace_back();
        pairs.emplace_back();
        CHECK(reinterpret_cast<std::uintptr_t>(&lines.back()) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(pairs.data()) % 16 == 0);
    }
    void *small = memory.allocate(4, 16), *byte = memory.allocate(1, 1);
    CHECK(reinterpret_cast<std::uintptr_t>(small) % 16 == 0);
    memory.deallocate(small, 4, 16);
    memory.deallocate(byte, 1, 1);
    using entry = std::pair<const int, int>;
    std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, pagewise::allocator<entry>>
        numbers(10, std::hash<int>(), std::equal_to<int>(), pagewise::allocator<entry>(memory));
    for (int i = 0; i < 1000; i++) {
        numbers[i * i % 777] = i;
    }
    auto copy = numbers;
    CHECK(copy == numbers && copy.get_allocator() == numbers.get_allocator());
}

static void failures_are_exceptions() {
    pw_heap_options options{};
    options.limit_bytes = 1 << 20;
    pagewise::transaction_resource memory(options), other;
    bool thrown = false;
    try {
        std::pmr::vector<char> large(2 << 20, 'x', &memory);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && memory != other && memory == memory);
    options.segment_bytes = 77;
    thrown = false;
    try {
        pagewise::transaction_resource wrong(options);
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    CHECK(thrown);
}

struct too_much {};

static bool throw_at_limit(pw_heap *, std::size_t, void *) {
    throw too_much();
}

static void a_limits_function_may_throw() {
    pw_heap_options options{};
    options.limit_bytes = 1 << 20;
    options.on_limit = throw_at_limit;
    pagewise::transaction_resource memory(options);
    bool thrown = false;
    try {
        std::pmr::vector<std::pmr::string> words(&memory);
        for (;;) {
            words.emplace_back(100, 'x');
        }
    } catch (const too_much &) {
        thrown = true;
    }
    CHECK(thrown && statistics_of(memory).live_blocks == 0);
}

int main() {
    containers_give_back_what_they_took(0);
    containers_give_back_what_they_took(PW_HEAP_CHECKED);
    allocators_keep_alignment(0);
    allocators_keep_alignment(PW_HEAP_CHECKED);
    failures_are_exceptions();
    a_limits_function_may_throw();
    return 0;
}
