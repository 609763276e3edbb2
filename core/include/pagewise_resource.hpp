// SPDX-License-Identifier: MIT
//
// Transaction heaps for C++17: a std::pmr::memory_resource and an allocator, header only; link
// against libpagewise. pagewise.h says what a transaction heap is, and who may use one when.
//
//     pagewise::transaction_resource memory;          // one for each thread, made once
//
//     void serve(connection &client) {
//         pagewise::transaction request(memory);      // free-all when this scope ends
//         std::pmr::vector<std::pmr::string> words(&memory);
//         ...                                         // what dies on the way is reused at once
//     }
//
// Containers that live longer than the scope must not be on the resource: their blocks are gone.
#ifndef PAGEWISE_RESOURCE_HPP
#define PAGEWISE_RESOURCE_HPP

#include "pagewise_heap.h"

#include <cerrno>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace pagewise {

namespace detail {

// Blocks of up to 8 bytes are at multiples of 8: whoever needs 16 asks for 16 bytes.
inline std::size_t size_for(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes <= 8 && alignment > 8 ? 16 : bytes;
}

inline void *allocate(pw_heap *heap, std::size_t bytes, std::size_t alignment) {
    void *block = PW_HEAP_LIKELY(alignment <= 16)
                      ? pw_heap_alloc_inline(heap, size_for(bytes, alignment))
                      : pw_heap_aligned(heap, alignment, bytes);
    if (!PW_HEAP_LIKELY(block != nullptr)) {
        throw std::bad_alloc();
    }
    return block;
}

inline void deallocate(pw_heap *heap, void *block, std::size_t bytes,
                       std::size_t alignment) noexcept {
    if (PW_HEAP_LIKELY(alignment <= 16)) {
        pw_heap_free_sized_inline(heap, block, size_for(bytes, alignment));
    } else {
        pw_heap_free_inline(heap, block);
    }
}

} // namespace detail

// A transaction heap as a memory resource. Owns the heap. As the heap, it is one thread's at a
// time. allocate throws std::bad_alloc where the limit or the machine is exhausted.
class transaction_resource final : public std::pmr::memory_resource {
  public:
    transaction_resource() : transaction_resource(pw_heap_options{}) {
    }

    // Throws std::invalid_argument for options that make no sense, std::bad_alloc without memory.
    explicit transaction_resource(const pw_heap_options &options) : heap_(pw_heap_new(&options)) {
        if (!heap_ && errno == EINVAL) {
            throw std::invalid_argument("pagewise::transaction_resource: options");
        }
        if (!heap_) {
            throw std::bad_alloc();
        }
    }

    ~transaction_resource() override {
        pw_heap_delete(heap_);
    }

    transaction_resource(const transaction_resource &) = delete;
    transaction_resource &operator=(const transaction_resource &) = delete;

    // All blocks are gone. Destructors do not run.
    void free_all() noexcept {
        pw_heap_free_all(heap_);
    }

    // For the functions of pagewise.h: statistics, limit, walk.
    pw_heap *native_handle() const noexcept {
        return heap_;
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return detail::allocate(heap_, bytes, alignment);
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        detail::deallocate(heap_, block, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    pw_heap *heap_;
};

// Free-all at the end of a scope, however it is left. Declare it before what is allocated in it:
// containers are destroyed before it then.
class [[nodiscard]] transaction {
  public:
    explicit transaction(transaction_resource &resource) noexcept : resource_(resource) {
    }
    ~transaction() {
        resource_.free_all();
    }
    transaction(const transaction &) = delete;
    transaction &operator=(const transaction &) = delete;

  private:
    transaction_resource &resource_;
};

// For containers whose allocator is part of their type: without the virtual calls of std::pmr, the
// hot paths are compiled into the container.
//
//     std::vector<int, pagewise::allocator<int>> numbers{pagewise::allocator<int>(memory)};
template <class T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    explicit allocator(transaction_resource &resource) noexcept : heap_(resource.native_handle()) {
    }
    explicit allocator(pw_heap *heap) noexcept : heap_(heap) {
    }
    template <class U>
    allocator(const allocator<U> &other) noexcept : heap_(other.native_handle()) {
    }

    T *allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
            throw std::bad_array_new_length();
        }
        return static_cast<T *>(detail::allocate(heap_, count * sizeof(T), alignof(T)));
    }

    void deallocate(T *block, std::size_t count) noexcept {
        detail::deallocate(heap_, block, count * sizeof(T), alignof(T));
    }

    pw_heap *native_handle() const noexcept {
        return heap_;
    }

    template <class U> bool operator==(const allocator<U> &other) const noexcept {
        return heap_ == other.native_handle();
    }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept {
        return !(*this == other);
    }

  private:
    pw_heap *heap_;
};

} // namespace pagewise

#endif
