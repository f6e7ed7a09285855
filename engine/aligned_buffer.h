// Memory for floats that kernels read: 64-byte aligned, not initialised, of a fixed size.
//
// Thread contract: none of its own; it is plain memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

namespace espalier::engine {

/// A cache line, and the widest vector register.
inline constexpr size_t kBufferAlignment = 64;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// `count` floats; throws std::bad_alloc (std::bad_array_new_length when the bytes overflow).
  explicit AlignedBuffer(size_t count) : data_(allocate(count)), size_(count) {}

  float* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* data) const {
      ::operator delete (data, std::align_val_t{kBufferAlignment});
    }
  };

  static float* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / sizeof(float)) {
      throw std::bad_array_new_length();
    }
    void* const data = ::operator new (count * sizeof(float), std::align_val_t{kBufferAlignment});
    ask_for_huge_pages(data, count * sizeof(float));
    return static_cast<float*>(data);
  }

  /// Weights are read from end to end all the time: in pages of 2 MiB that costs fewer look-ups of
  /// addresses. A wish; it may be refused.
  static void ask_for_huge_pages(void* data, size_t bytes) {
    constexpr size_t kHugePage = size_t{2} << 20U;
    const size_t begin =
        (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
    const size_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }

  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

}  // namespace espalier::engine
