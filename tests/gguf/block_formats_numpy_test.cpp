// Block formats against numpy (make_block_cases.py).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "engine/tensor_view.h"

namespace espalier::engine {
namespace {

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file << " is missing: run make_block_cases.py first (CTest does)";
  return {std::istreambuf_iterator<char>(stream), {}};
}

class BlockFormatsNumpy : public ::testing::TestWithParam<DataType> {};

TEST_P(BlockFormatsNumpy, GiveTheSameBits) {
  const std::filesystem::path folder = ESPALIER_BLOCK_CASES;
  const std::string name(name_of(GetParam()));
  const std::string blocks = read_file(folder / (name + ".blocks"));
  const std::string expected = read_file(folder / (name + ".f32"));
  TensorView view;
  view.dtype = GetParam();
  view.data = std::as_bytes(std::span(blocks));
  ASSERT_EQ(view.elements() * sizeof(float), expected.size());
  ASSERT_GE(view.elements(), 2000U * 32);
  std::vector<float> values(view.elements());
  convert_to_f32(view, 0, values.size(), values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    float wanted;
    std::memcpy(&wanted, expected.data() + i * sizeof(wanted), sizeof(wanted));
    ASSERT_EQ(std::memcmp(&values[i], &wanted, sizeof(wanted)), 0)
        << name << ", weight " << i << ": " << values[i] << ", numpy has " << wanted;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockFormatsNumpy,
                         ::testing::Values(DataType::kQ4_0, DataType::kQ4_1, DataType::kQ5_0,
                                           DataType::kQ5_1, DataType::kQ8_0, DataType::kQ2_K,
                                           DataType::kQ3_K, DataType::kQ4_K, DataType::kQ5_K,
                                           DataType::kQ6_K),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace espalier::engine
