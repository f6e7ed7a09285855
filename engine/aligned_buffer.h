// Memory for floats that kernels read: 64-byte aligned, not initialised, of a fixed size.
//
// Thread contract: none of its own; it is plain memory.
#pragma once

#include <cstddef>
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
    return static_cast<float*>(
        ::operator new (count * sizeof(float), std::align_val_t{kBufferAlignment}));
  }

  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

}  // namespace espalier::engine
