// Inputs of trie attention for its tests, and the kernels that they are put to.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/cpu_features.h"
#include "engine/thread_pool.h"
#include "engine/trie_attention.h"
#include "tests/unit/engine/example_tries.h"
#include "tests/unit/engine/random_matrix.h"

namespace espalier::engine {

struct AttentionKernel {
  NumberFormat format = NumberFormat::kF32;
  Isa isa = Isa::kScalar;
};

/// All that differ; those that this CPU lacks are skipped.
inline const std::vector<AttentionKernel> kAllAttentionKernels = {
    {NumberFormat::kF32, Isa::kScalar},      {NumberFormat::kF32, Isa::kAvx2},
    {NumberFormat::kF32, Isa::kAvx512},      {NumberFormat::kBf16, Isa::kScalar},
    {NumberFormat::kBf16, Isa::kAvx2},       {NumberFormat::kBf16, Isa::kAvx512},
    {NumberFormat::kBf16, Isa::kAvx512Bf16}, {NumberFormat::kBf16, Isa::kAmx},
};

inline std::string name_of_kernel(const testing::TestParamInfo<AttentionKernel>& info) {
  return std::string(name_of(info.param.format)) + "_" + std::string(name_of(info.param.isa));
}

class AttentionKernelTest : public testing::TestWithParam<AttentionKernel> {
 protected:
  void SetUp() override {
    if (GetParam().isa > detected_isa()) GTEST_SKIP() << "this CPU has no such instructions";
  }
};

/// A matrix in either format; rows are `stride` bytes apart, more than they need.
class Matrix {
 public:
  Matrix(NumberFormat format, size_t rows, size_t cols, const std::vector<float>& values,
         size_t spare_bytes = 12)
      : format_(format),
        rows_(rows),
        cols_(cols),
        stride_(cols * bytes_of(format) + spare_bytes),
        bytes_(rows * stride_, std::byte{0xff}) {  // NaN in either format
    for (size_t i = 0; i < values.size(); ++i) set(i / cols, i % cols, values[i]);
  }

  /// Rounds to bf16 by cutting off: any bf16 will do.
  void set(size_t row, size_t col, float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    const size_t at = row * stride_ + col * bytes_of(format_);
    if (format_ == NumberFormat::kF32) {
      std::memcpy(&bytes_[at], &bits, 4);
    } else {
      const auto upper = static_cast<uint16_t>(bits >> 16);
      std::memcpy(&bytes_[at], &upper, 2);
    }
  }

  /// These rows, one after the other.
  Matrix rows(const std::vector<uint32_t>& chosen) const {
    Matrix out(format_, chosen.size(), cols_, {}, stride_ - cols_ * bytes_of(format_));
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::memcpy(&out.bytes_[i * stride_], &bytes_[chosen[i] * stride_], stride_);
    }
    return out;
  }

  Activations view() { return {format_, bytes_.data(), rows_, cols_, stride_}; }
  ConstActivations view() const { return {format_, bytes_.data(), rows_, cols_, stride_}; }
  /// The bytes of a row without those between rows.
  std::string row_bytes(size_t row) const {
    return {reinterpret_cast<const char*>(&bytes_[row * stride_]), cols_ * bytes_of(format_)};
  }
  const std::byte* data() const { return bytes_.data(); }
  size_t stride() const { return stride_; }
  size_t cols() const { return cols_; }

 private:
  NumberFormat format_;
  size_t rows_, cols_, stride_;
  std::vector<std::byte> bytes_;
};

/// Random queries, keys and values for every row of a trie.
struct AttentionInputs {
  AttentionShape shape;
  NumberFormat format;
  Matrix queries, keys, values;

  AttentionInputs(const AttentionShape& shape_in, NumberFormat format_in, uint32_t rows,
                  uint32_t seed, float deviation = 1.0f)
      : shape(shape_in),
        format(format_in),
        queries(random(rows, shape.query_heads, seed, deviation)),
        keys(random(rows, shape.kv_heads, seed + 1, deviation)),
        values(random(rows, shape.kv_heads, seed + 2, 1.0f)) {}

  KvSpan kv() const { return {format, keys.data(), values.data(), keys.stride()}; }
  size_t width() const { return queries.cols(); }

  /// What a trie of these rows alone would have.
  AttentionInputs of_rows(const std::vector<uint32_t>& rows) const {
    AttentionInputs out(shape, format, 0, 0);
    out.queries = queries.rows(rows);
    out.keys = keys.rows(rows);
    out.values = values.rows(rows);
    return out;
  }

 private:
  Matrix random(uint32_t rows, size_t heads, uint32_t seed, float deviation) const {
    const size_t cols = heads * shape.head_dim;
    return {format, rows, cols, random_floats(rows * cols, seed, deviation)};
  }
};

/// The result for `rows` of the trie.
inline Matrix attend(Isa isa, const ExampleTrie& trie, const AttentionInputs& inputs,
                     const std::vector<uint32_t>& rows, size_t threads = 1) {
  ThreadPool pool(threads);
  AttentionScratch scratch;
  const Matrix queries = inputs.queries.rows(rows);
  Matrix out(inputs.format, rows.size(), inputs.width(), {}, 20);
  trie_attention_with(isa, pool, inputs.shape, trie.view(), rows, queries.view(), inputs.kv(),
                      out.view(), scratch);
  return out;
}

}  // namespace espalier::engine
