// GGUF files as models: configuration, names, and rows in another order. A `llama` decoder of one
// layer, whose tensors hold the numbers of their rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/decoder_weights.h"
#include "models/gguf_config.h"
#include "models/gguf_weights.h"
#include "tests/unit/engine/gguf_bytes.h"

namespace espalier::models {
namespace {

namespace fs = std::filesystem;
using engine::GgufBytes;
using engine::GgufFile;
using engine::GgufType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kHidden = 8, kMlp = 12, kVocabulary = 6;

struct Tensor {
  std::string name;
  std::vector<uint64_t> dimensions;  // the fastest first
};

struct TinyGguf {
  std::string architecture = "llama";
  std::map<std::string, uint32_t> integers = {{"block_count", 1},
                                              {"context_length", 64},
                                              {"embedding_length", kHidden},
                                              {"feed_forward_length", kMlp},
                                              {"attention.head_count", 2},
                                              {"attention.head_count_kv", 1}};
  std::map<std::string, std::string> texts;        // under the architecture
  std::map<std::string, std::string> whole_texts;  // by their whole key
  std::vector<std::string> labels;
  std::vector<Tensor> tensors = {
      {"token_embd.weight", {kHidden, kVocabulary}}, {"output_norm.weight", {kHidden}},
      {"blk.0.attn_norm.weight", {kHidden}},         {"blk.0.attn_q.weight", {kHidden, 8}},
      {"blk.0.attn_k.weight", {kHidden, 4}},         {"blk.0.attn_v.weight", {kHidden, 4}},
      {"blk.0.attn_output.weight", {8, kHidden}},    {"blk.0.ffn_norm.weight", {kHidden}},
      {"blk.0.ffn_gate.weight", {kHidden, kMlp}},    {"blk.0.ffn_up.weight", {kHidden, kMlp}},
      {"blk.0.ffn_down.weight", {kMlp, kHidden}}};

  std::string bytes() const {
    const size_t keys =
        2 + integers.size() + texts.size() + whole_texts.size() + (labels.empty() ? 0 : 1);
    GgufBytes file(tensors.size(), keys);
    file.key("general.architecture", GgufType::kString).string(architecture);
    file.key(architecture + ".attention.layer_norm_rms_epsilon", GgufType::kFloat32).number(1e-5F);
    for (const auto& [key, value] : integers) {
      file.key(architecture + "." + key, GgufType::kUint32).number(value);
    }
    for (const auto& [key, value] : texts) {
      file.key(architecture + "." + key, GgufType::kString).string(value);
    }
    for (const auto& [key, value] : whole_texts) file.key(key, GgufType::kString).string(value);
    if (!labels.empty()) {
      file.array(architecture + ".classifier.output_labels", GgufType::kString, labels.size());
      for (const std::string& label : labels) file.string(label);
    }
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      file.tensor(tensor.name, tensor.dimensions, 0, offset);
      offset += (elements(tensor) * sizeof(float) + 31) / 32 * 32;
    }
    file.align();
    for (const Tensor& tensor : tensors) {
      for (uint64_t i = 0; i < elements(tensor); ++i) {
        file.number(static_cast<float>(i / tensor.dimensions[0]));  // the row
      }
      file.align();
    }
    return file.str();
  }

  static uint64_t elements(const Tensor& tensor) {
    uint64_t count = 1;
    for (const uint64_t dimension : tensor.dimensions) count *= dimension;
    return count;
  }
};

class GgufModel : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(::testing::TempDir()) /
            (std::string("gguf_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf");
  }
  void TearDown() override { fs::remove(path_); }

  const fs::path& write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return path_;
  }
  ModelConfig config(const TinyGguf& file) { return read_model_config(write(file.bytes())); }

  /// The first number of each row.
  static std::vector<float> rows_of(const WeightTensor& tensor) {
    std::vector<float> firsts;
    const size_t width = tensor.view.shape.size() == 1 ? 1 : tensor.view.shape.back();
    for (size_t row = 0; row < tensor.view.shape[0]; ++row) {
      float value = 0;
      engine::convert_to_f32(tensor.view, row * width, 1, &value);
      firsts.push_back(value);
    }
    return firsts;
  }

  void expect_refused(const TinyGguf& file, const std::string& message) {
    const fs::path& path = write(file.bytes());
    EXPECT_THAT(
        [&] {
          const ModelConfig read = read_model_config(path);
          read_embedding_config(path);
          read_rerank_config(path);
          check_tensors(read, GgufWeights::open(path), {});
        },
        ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(path.string()), HasSubstr(message))));
  }

 private:
  fs::path path_;
};

TEST_F(GgufModel, TheMetadataIsAConfig) {
  TinyGguf file;
  file.integers["pooling_type"] = 1;
  const ModelConfig read = config(file);
  EXPECT_EQ(read.model_type, "llama");
  EXPECT_EQ(read.layers, 1U);
  EXPECT_EQ(read.hidden_size, kHidden);
  EXPECT_EQ(read.intermediate_size, kMlp);
  EXPECT_EQ(read.query_heads, 2U);
  EXPECT_EQ(read.kv_heads, 1U);
  EXPECT_EQ(read.head_dim, 4U);
  EXPECT_EQ(read.vocab_size, kVocabulary);
  EXPECT_EQ(read.table_bytes, kVocabulary * kHidden * sizeof(float));
  EXPECT_EQ(read.max_positions, 64U);
  EXPECT_EQ(read.rope_theta, 10000.0);
  EXPECT_FLOAT_EQ(read.rms_norm_eps, 1e-5F);
  EXPECT_TRUE(read.tied_embeddings);
  EXPECT_FALSE(read.qk_norm);
  EXPECT_FALSE(read.qkv_bias);
  const EmbeddingConfig embedding = read_embedding_config(write(file.bytes()));
  EXPECT_EQ(embedding.pooling, Pooling::kMean);
  EXPECT_TRUE(embedding.normalize);
  EXPECT_TRUE(embedding.has_pooling_module);
}

TEST_F(GgufModel, ASlidingWindowLimitsThePositions) {
  TinyGguf file;
  file.integers["attention.sliding_window"] = 16;
  EXPECT_EQ(config(file).max_positions, 16U);
}

TEST_F(GgufModel, RowsOfQueriesAndKeysStandAsInHuggingFace) {
  TinyGguf file;
  file.tensors.push_back({"blk.0.attn_q.bias", {8}});
  file.tensors.push_back({"blk.0.attn_k.bias", {4}});
  file.tensors.push_back({"blk.0.attn_v.bias", {4}});
  const GgufWeights weights = GgufWeights::open(write(file.bytes()));
  const std::string attention = "layers.0.self_attn.";
  EXPECT_THAT(rows_of(weights.tensor({attention + "q_proj.weight", {8, kHidden}})),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(rows_of(weights.tensor({attention + "k_proj.weight", {4, kHidden}})),
              ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(rows_of(weights.tensor({attention + "v_proj.weight", {4, kHidden}})),
              ElementsAre(0, 1, 2, 3));
  check_tensors(config(file), weights, {});
}

TEST_F(GgufModel, OnlyLlamaFilesHaveOtherRows) {
  TinyGguf file;
  file.architecture = "qwen2";
  for (const char* part : {"q", "k", "v"}) {
    file.tensors.push_back(
        {std::string("blk.0.attn_") + part + ".bias", {part[0] == 'q' ? 8U : 4U}});
  }
  EXPECT_TRUE(config(file).qkv_bias);
  const GgufWeights weights = GgufWeights::open(write(file.bytes()));
  check_tensors(config(file), weights, {});
  EXPECT_THAT(rows_of(weights.tensor({"layers.0.self_attn.k_proj.weight", {4, kHidden}})),
              ElementsAre(0, 1, 2, 3));
}

TEST_F(GgufModel, TheRelevantLabelIsTheLast) {
  TinyGguf file;
  file.integers["pooling_type"] = 4;
  file.tensors.push_back({"cls.output.weight", {kHidden, 2}});
  const auto score = [&] {
    return rows_of(GgufWeights::open(write(file.bytes())).tensor({"score.weight", {2, kHidden}}));
  };
  EXPECT_EQ(read_rerank_config(write(file.bytes())).labels, 2U);
  EXPECT_EQ(config(file).architecture, "LlamaForSequenceClassification");
  EXPECT_THAT(score(), ElementsAre(0, 1));
  file.labels = {"yes", "no"};
  EXPECT_THAT(score(), ElementsAre(1, 0));
  check_tensors(config(file), GgufWeights::open(write(file.bytes())), {"score.weight"});
  file.labels = {"good", "bad"};
  EXPECT_THAT([&] { read_rerank_config(write(file.bytes())); },
              ThrowsMessage<std::runtime_error>(HasSubstr("does not say which label")));
  // One label; the file may leave out the dimension.
  file.labels.clear();
  file.tensors.back().dimensions = {kHidden};
  EXPECT_EQ(read_rerank_config(write(file.bytes())).labels, 1U);
  const auto one = GgufWeights::open(write(file.bytes())).tensor({"score.weight", {1, kHidden}});
  EXPECT_THAT(one.view.shape, ElementsAre(1, kHidden));
}

TEST_F(GgufModel, RefusesByName) {
  const auto with = [&](const std::function<void(TinyGguf&)>& change, const std::string& message) {
    TinyGguf file;
    change(file);
    expect_refused(file, message);
  };
  with([](TinyGguf& f) { f.architecture = "gemma"; }, "general.architecture: 'gemma' is not");
  with([](TinyGguf& f) { f.integers.erase("block_count"); }, "llama.block_count: is missing");
  with([](TinyGguf& f) { f.integers["block_count"] = 0; }, "llama.block_count: must be from 1");
  with([](TinyGguf& f) { f.integers["block_count"] = 2; }, "has no tensor that is layers.1.");
  with([](TinyGguf& f) { f.integers["attention.head_count"] = 3; },
       "llama.attention.key_length: is missing");
  with([](TinyGguf& f) { f.integers["rope.dimension_count"] = 2; }, "llama.rope.dimension_count");
  with([](TinyGguf& f) { f.integers["expert_count"] = 4; }, "llama.expert_count: is not supported");
  with([](TinyGguf& f) { f.integers["pooling_type"] = 9; }, "llama.pooling_type: 9 is not");
  with([](TinyGguf& f) { f.texts["rope.scaling.type"] = "longrope"; }, "'longrope' is not");
  with([](TinyGguf& f) { f.whole_texts["general.type"] = "adapter"; }, "is no model");
  with([](TinyGguf& f) { f.tensors.pop_back(); }, "has no tensor that is layers.0.mlp.down_proj");
  with(
      [](TinyGguf& f) {
        f.tensors.back().dimensions = {kHidden, kMlp};
      },
      "blk.0.ffn_down.weight: expected shape [8, 12], found [12, 8]");
  with(
      [](TinyGguf& f) {
        f.tensors.push_back({"blk.0.attn_sinks.weight", {4}});
      },
      "blk.0.attn_sinks.weight: is not a tensor");
  with([](TinyGguf& f) { f.tensors[0].dimensions = {kHidden}; }, "token_embd.weight: is missing");
  with(
      [](TinyGguf& f) {
        f.tensors.push_back({"rope_freqs.weight", {2}});
      },
      "rope_freqs.weight: has a number that is not above 0");  // its rows are 0
}

TEST_F(GgufModel, SurvivesBitFlips) {
  const std::string good = TinyGguf().bytes();
  const size_t header = good.find("blk.0.ffn_down.weight") + 64;
  std::mt19937 random(3);
  const auto load = [&](const std::string& bytes) {
    const fs::path& path = write(bytes);
    try {
      const ModelConfig read = read_model_config(path);
      read_embedding_config(path);
      read_rerank_config(path);
      const GgufWeights weights = GgufWeights::open(path);
      check_tensors(read, weights, {});
      for (const ExpectedTensor& expected : expected_tensors(read)) weights.tensor(expected);
      return true;
    } catch (const std::runtime_error&) {
      return false;  // refused: the other allowed outcome
    }
  };
  ASSERT_TRUE(load(good));
  size_t refused = 0;
  for (size_t bit = 0; bit < header * 8; bit += 11) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    if (!load(flipped)) ++refused;
  }
  EXPECT_GT(refused, header / 4);
}

}  // namespace
}  // namespace espalier::models
