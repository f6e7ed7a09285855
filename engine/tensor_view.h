// A tensor as a weight file holds it, and its numbers as f32.
//
// Thread contract: plain data and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::engine {

/// How numbers are stored: one by one, or in GGML's blocks of 32 or 256 that share scales (see
/// block_formats.h).
enum class DataType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K
};
std::string_view name_of(DataType type);  // "F32", "Q4_K", …
size_t elements_of(DataType type);        // of a block; 1 where there are none
size_t bytes_of(DataType type);           // of a block

/// The bytes of a tensor, or nothing when a 64-bit number cannot hold it or a row (the last
/// dimension) is not made of whole blocks.
std::optional<size_t> tensor_bytes(DataType type, std::span<const size_t> shape);

/// "[2, 3]", for messages.
std::string shape_text(const std::vector<size_t>& shape);

/// A tensor in the map: row-major, valid as long as its file. `data` may be unaligned for its type;
/// it has whole blocks.
struct TensorView {
  DataType dtype = DataType::kF32;
  std::vector<size_t> shape;
  std::span<const std::byte> data;

  size_t elements() const;
};

/// Converts `count` elements from element `first` of `tensor` to f32 (exact for F32, F16 and BF16).
/// Throws std::out_of_range for elements that it does not have.
void convert_to_f32(const TensorView& tensor, size_t first, size_t count, float* out);

}  // namespace espalier::engine
