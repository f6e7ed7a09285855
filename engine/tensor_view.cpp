#include "engine/tensor_view.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "engine/bf16.h"
#include "engine/block_formats.h"
#include "engine/f16.h"

namespace espalier::engine {
namespace {

struct Format {
  std::string_view name;
  size_t elements, bytes;  // of a block
  DequantiseBlocks dequantise;
};

/// By DataType.
constexpr std::array<Format, 13> kFormats = {{{"F32", 1, 4, nullptr},
                                              {"F16", 1, 2, nullptr},
                                              {"BF16", 1, 2, nullptr},
                                              {"Q4_0", kShortBlock, 18, dequantise_q4_0},
                                              {"Q4_1", kShortBlock, 20, dequantise_q4_1},
                                              {"Q5_0", kShortBlock, 22, dequantise_q5_0},
                                              {"Q5_1", kShortBlock, 24, dequantise_q5_1},
                                              {"Q8_0", kShortBlock, 34, dequantise_q8_0},
                                              {"Q2_K", kSuperBlock, 84, dequantise_q2_k},
                                              {"Q3_K", kSuperBlock, 110, dequantise_q3_k},
                                              {"Q4_K", kSuperBlock, 144, dequantise_q4_k},
                                              {"Q5_K", kSuperBlock, 176, dequantise_q5_k},
                                              {"Q6_K", kSuperBlock, 210, dequantise_q6_k}}};
static_assert(kFormats[static_cast<size_t>(DataType::kQ6_K)].name == "Q6_K");

const Format& format_of(DataType type) { return kFormats[static_cast<size_t>(type)]; }

template <float (*Convert)(uint16_t)>
void convert_halves(const std::byte* data, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, data + i * sizeof(half), sizeof(half));  // may be unaligned
    out[i] = Convert(half);
  }
}

/// Elements [first, first + count) of blocks; those at the ends may be wanted in part.
void convert_blocks(const Format& format, const std::byte* data, size_t first, size_t count,
                    float* out) {
  const std::byte* block = data + first / format.elements * format.bytes;
  size_t before = first % format.elements;
  while (count > 0) {
    if (before == 0 && count >= format.elements) {
      const size_t blocks = count / format.elements;
      format.dequantise(block, blocks, out);
      block += blocks * format.bytes;
      out += blocks * format.elements;
      count -= blocks * format.elements;
    } else {
      std::array<float, kSuperBlock> values;
      format.dequantise(block, 1, values.data());
      const size_t wanted = std::min(count, format.elements - before);
      std::copy_n(values.data() + before, wanted, out);
      block += format.bytes;
      out += wanted;
      count -= wanted;
      before = 0;
    }
  }
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "weight files are little-endian");

std::string_view name_of(DataType type) { return format_of(type).name; }
size_t elements_of(DataType type) { return format_of(type).elements; }
size_t bytes_of(DataType type) { return format_of(type).bytes; }

std::optional<size_t> tensor_bytes(DataType type, std::span<const size_t> shape) {
  const Format& format = format_of(type);
  if (!shape.empty() && shape.back() % format.elements != 0) return std::nullopt;
  if (shape.empty() && format.elements != 1) return std::nullopt;
  // A zero anywhere makes the tensor empty, however large the other dimensions are.
  if (std::ranges::find(shape, size_t{0}) != shape.end()) return 0;
  size_t bytes = format.bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t extent = i + 1 == shape.size() ? shape[i] / format.elements : shape[i];
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

size_t TensorView::elements() const { return data.size() / bytes_of(dtype) * elements_of(dtype); }

void convert_to_f32(const TensorView& tensor, size_t first, size_t count, float* out) {
  if (first > tensor.elements() || count > tensor.elements() - first) {
    throw std::out_of_range("convert_to_f32: elements " + std::to_string(first) + " + " +
                            std::to_string(count) + " of " + std::to_string(tensor.elements()));
  }
  if (count == 0) return;
  const std::byte* const data = tensor.data.data();
  switch (tensor.dtype) {
    case DataType::kF32:
      std::memcpy(out, data + first * sizeof(float), count * sizeof(float));
      return;
    case DataType::kF16:
      convert_halves<f32_from_f16>(data + first * sizeof(uint16_t), count, out);
      return;
    case DataType::kBF16:
      convert_halves<f32_from_bf16>(data + first * sizeof(uint16_t), count, out);
      return;
    default:
      convert_blocks(format_of(tensor.dtype), data, first, count, out);
  }
}

std::string shape_text(const std::vector<size_t>& shape) {
  std::string text = "[";
  for (const size_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

}  // namespace espalier::engine
