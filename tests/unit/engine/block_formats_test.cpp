#include "engine/block_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/tensor_view.h"
#include "tests/reference/block_formats.h"

namespace espalier::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr DataType kBlockTypes[] = {
    DataType::kQ4_0, DataType::kQ4_1, DataType::kQ5_0, DataType::kQ5_1, DataType::kQ8_0,
    DataType::kQ2_K, DataType::kQ3_K, DataType::kQ4_K, DataType::kQ5_K, DataType::kQ6_K};

/// Where f16 numbers lie in a block.
std::vector<size_t> halves_of(DataType type) {
  switch (type) {
    case DataType::kQ2_K:
      return {80, 82};
    case DataType::kQ3_K:
      return {108};
    case DataType::kQ6_K:
      return {208};
    case DataType::kQ4_1:
    case DataType::kQ5_1:
    case DataType::kQ4_K:
    case DataType::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}

/// Random bytes with finite scales: zero, subnormal, the largest, and what lies between.
std::vector<uint8_t> random_blocks(DataType type, size_t count) {
  constexpr uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
  std::mt19937 random(static_cast<unsigned>(type) + 1);
  std::vector<uint8_t> bytes(count * bytes_of(type));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t block = 0; block < count; ++block) {
    for (const size_t at : halves_of(type)) {
      auto half = static_cast<uint16_t>(random());
      if ((half & 0x7c00) == 0x7c00) half &= 0x83ff;  // neither infinity nor NaN
      if (block < 64) half = kSpecial[(block + at / 2) % 8];
      bytes[block * bytes_of(type) + at] = static_cast<uint8_t>(half);
      bytes[block * bytes_of(type) + at + 1] = static_cast<uint8_t>(half >> 8);
    }
  }
  return bytes;
}

TensorView view_of(DataType type, std::span<const uint8_t> bytes) {
  TensorView view;
  view.dtype = type;
  view.data = std::as_bytes(bytes);
  view.shape = {bytes.size() / bytes_of(type) * elements_of(type)};
  return view;
}

TEST(BlockFormats, AgreeWithTheirNaiveTwinsToTheLastBit) {
  for (const DataType type : kBlockTypes) {
    const std::vector<uint8_t> bytes = random_blocks(type, 500);
    const TensorView view = view_of(type, bytes);
    ASSERT_EQ(view.elements(), 500 * elements_of(type));
    std::vector<float> values(view.elements());
    convert_to_f32(view, 0, values.size(), values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const uint8_t> block =
          std::span(bytes).subspan(i / elements_of(type) * bytes_of(type), bytes_of(type));
      const float expected = reference::block_weight(type, block, i % elements_of(type));
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected))
          << name_of(type) << ", weight " << i << ": " << values[i] << ", expected " << expected;
    }
  }
}

TEST(BlockFormats, AnyRangeOfATensorCanBeConverted) {
  for (const DataType type : kBlockTypes) {
    // One byte further: tensors of adapters and unaligned files may lie anywhere.
    std::vector<uint8_t> bytes = random_blocks(type, 5);
    bytes.insert(bytes.begin(), 0);
    const TensorView view = view_of(type, std::span<const uint8_t>(bytes).subspan(1));
    const size_t size = view.elements();
    std::vector<float> all(size);
    convert_to_f32(view, 0, size, all.data());
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
      const size_t first = random() % (size + 1), count = random() % (size - first + 1);
      std::vector<float> part(count + 1, -1234.5F);
      convert_to_f32(view, first, count, part.data());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(part[i]), std::bit_cast<uint32_t>(all[first + i]))
            << name_of(type) << ": " << first << " + " << i;
      }
      EXPECT_EQ(part[count], -1234.5F) << "written past the end";
    }
    float out = 0;
    EXPECT_THROW(convert_to_f32(view, size, 1, &out), std::out_of_range);
    EXPECT_THROW(convert_to_f32(view, 1, SIZE_MAX, &out), std::out_of_range);
  }
}

TEST(BlockFormats, TensorBytesAreThoseOfWholeBlocksInEachRow) {
  EXPECT_EQ(tensor_bytes(DataType::kF32, std::vector<size_t>{3, 5}), 60U);
  EXPECT_EQ(tensor_bytes(DataType::kF16, std::vector<size_t>{}), 2U);
  EXPECT_EQ(tensor_bytes(DataType::kQ8_0, std::vector<size_t>{3, 64}), 3U * 2 * 34);
  EXPECT_EQ(tensor_bytes(DataType::kQ4_K, std::vector<size_t>{2, 512}), 4U * 144);
  EXPECT_EQ(tensor_bytes(DataType::kQ4_K, std::vector<size_t>{0, 512}), 0U);
  EXPECT_EQ(tensor_bytes(DataType::kQ8_0, std::vector<size_t>{64, 3}), std::nullopt);
  EXPECT_EQ(tensor_bytes(DataType::kQ8_0, std::vector<size_t>{}), std::nullopt);
  EXPECT_EQ(tensor_bytes(DataType::kF32, std::vector<size_t>{SIZE_MAX / 2, 4}), std::nullopt);
}

}  // namespace
}  // namespace espalier::engine
