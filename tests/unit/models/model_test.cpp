#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/reference/naive_plan.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::ConstMatView;
using engine::DataType;
using reference::TokenIds;
using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> last_state(Model& model) {
  const ConstMatView state = model.forward_pass().run(
      reference::naive_plan(std::vector<TokenIds>{{3, 1, 4, 1, 5}}, engine::DedupMode::kTrie), {});
  return {state.row(0).begin(), state.row(0).end()};
}

std::vector<float> last_state(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write(folder);
  Model model = test::load(folder.path());
  return last_state(model);
}

TEST(Model, NamesWithoutPrefixAndEveryDtypeGiveTheSameBits) {
  const TinyModel tiny;
  const std::vector<float> expected = last_state(tiny);
  for (const DataType dtype : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    TinyModel other = tiny;
    other.set_dtype(dtype);
    EXPECT_EQ(last_state(other), expected) << engine::name_of(dtype);
    other.strip_prefix();
    EXPECT_EQ(last_state(other), expected) << engine::name_of(dtype);
  }
}

TEST(Model, ShardsGiveTheSameBitsAsOneFile) {
  const TinyModel tiny;
  const TemporaryFolder folder;
  test::TestTensors shards[3];
  std::string index = R"({"weight_map": {)";
  size_t i = 0;
  for (const auto& [name, tensor] : tiny.tensors) {
    const size_t shard = i++ % 3;  // so that fused products come from several files
    shards[shard][name] = tensor;
    index += (i > 1 ? ", \"" : "\"") + name + "\": \"" + std::to_string(shard) + ".safetensors\"";
  }
  folder.write("model.safetensors.index.json", index + "}}");
  folder.write("config.json", tiny.config_json());
  for (size_t shard = 0; shard < 3; ++shard) {
    folder.write(std::to_string(shard) + ".safetensors", test::safetensors_bytes(shards[shard]));
  }
  Model model = test::load(folder.path());
  EXPECT_EQ(last_state(model), last_state(tiny));
}

TEST(Model, LoadingReportsProgressUpToTheEnd) {
  const TemporaryFolder folder;
  TinyModel().write(folder);
  std::vector<std::pair<size_t, size_t>> reports;
  test::load(folder.path(), [&](size_t done, size_t total) { reports.emplace_back(done, total); });
  ASSERT_EQ(reports.size(), 2U * 11U + 1U);
  size_t before = 0;
  for (const auto& [done, total] : reports) {
    EXPECT_GT(done, before);
    EXPECT_EQ(total, reports[0].second);
    before = done;
  }
  EXPECT_EQ(reports.back().first, reports.back().second);
}

TEST(Model, EmbeddingsAreCutThenNormalised) {
  const TemporaryFolder folder;
  TinyModel().write(folder);
  const Model model = test::load(folder.path());
  std::vector<float> hidden(32, 7.0F);
  hidden[0] = 3.0F;
  hidden[1] = 4.0F;
  const std::vector<float> two = model.embed(hidden, 2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_FLOAT_EQ(two[0], 0.6F);
  EXPECT_FLOAT_EQ(two[1], 0.8F);
  const std::vector<float> all = model.embed(hidden, std::nullopt);
  ASSERT_EQ(all.size(), 32U);
  EXPECT_NEAR(std::inner_product(all.begin(), all.end(), all.begin(), 0.0), 1.0, 1e-6);
  EXPECT_THROW(model.embed(hidden, 0), std::out_of_range);
  EXPECT_THROW(model.embed(hidden, 33), std::out_of_range);
}

TEST(Model, ExtremeHiddenStatesStillNormalise) {
  const TemporaryFolder folder;
  TinyModel().write(folder);
  const Model model = test::load(folder.path());
  EXPECT_THAT(model.embed(std::vector<float>(32, 0.0F), 2), ElementsAre(0.0F, 0.0F));
  const float half = 1 / std::sqrt(2.0F);
  const std::vector<float> huge = model.embed(std::vector<float>(32, 3e38F), 2);
  EXPECT_FLOAT_EQ(huge[0], half);
  EXPECT_FLOAT_EQ(huge[1], half);
}

TEST(Model, WithoutANormalizeModuleEmbeddingsAreTheHiddenState) {
  const TemporaryFolder folder;
  TinyModel().write(folder);
  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  const Model model = test::load(folder.path());
  EXPECT_THAT(model.embed(std::vector<float>{3, 4, 5}, 2), ElementsAre(3.0F, 4.0F));
}

float row_product(const test::TestTensor& table, const std::vector<float>& hidden, size_t row) {
  return std::inner_product(hidden.begin(), hidden.end(),
                            table.values.begin() + static_cast<long>(row * hidden.size()), 0.0F);
}

TEST(Model, LogitsComeFromTheTiedTableOrTheHead) {
  TinyModel tiny;
  tiny.tensors["lm_head.weight"] = test::random_tensor({40, 32}, 99);
  for (const char* tied : {"true", "false"}) {
    tiny.config["tie_word_embeddings"] = tied;
    const TemporaryFolder folder;
    tiny.write(folder);
    Model model = test::load(folder.path());
    ASSERT_TRUE(model.has_head());
    const std::vector<float> hidden = last_state(model);
    const char* table =
        tied == std::string("true") ? "model.embed_tokens.weight" : "lm_head.weight";
    for (const uint32_t id : {0U, 17U, 39U}) {
      EXPECT_NEAR(model.token_logit(hidden, id), row_product(tiny.tensors[table], hidden, id), 1e-5)
          << tied;
    }
    EXPECT_THROW(model.token_logit(hidden, 40), std::out_of_range);
    EXPECT_THROW(model.token_logit(std::vector<float>(31), 0), std::out_of_range);
  }
}

TEST(Model, AnUntiedModelWithoutHeadEmbedsButCannotScore) {
  TinyModel tiny;
  tiny.config["tie_word_embeddings"] = "false";
  const TemporaryFolder folder;
  tiny.write(folder);
  Model model = test::load(folder.path());
  EXPECT_FALSE(model.has_head());
  const std::vector<float> hidden = last_state(model);
  EXPECT_EQ(model.embed(hidden, std::nullopt).size(), 32U);
  EXPECT_THAT(error_of([&] { model.token_logit(hidden, 1); }), HasSubstr("no lm_head.weight"));
}

TEST(Model, AMovedModelStillRuns) {
  const TemporaryFolder folder;
  TinyModel().write(folder);
  Model first = test::load(folder.path());
  const std::vector<float> expected = last_state(first);
  Model second = std::move(first);
  EXPECT_EQ(last_state(second), expected);
}

TEST(Model, FolderFilesAreReadTogetherWithTheirComplaints) {
  const TemporaryFolder folder;
  TinyModel tiny;
  tiny.write(folder);
  folder.write("modules.json", "[]");
  EXPECT_THAT(error_of([&] { test::load(folder.path()); }), HasSubstr("modules.json"));
  folder.write("modules.json", "{");
  EXPECT_THAT(error_of([&] { test::load(folder.path()); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of([&] { test::load(folder.path() / "nowhere"); }),
              HasSubstr("nowhere/config.json: no such file"));
}

TEST(Model, TheMemoryEstimateCountsWeightsTableAndActivations) {
  const ModelConfig config = read_model_config(ESPALIER_MINI_MODEL);
  const auto gemm = engine::make_native_gemm(engine::NumberFormat::kF32, engine::usable_isa());
  const MemoryEstimate small = estimate_memory(config, *gemm, 100, 1);
  const MemoryEstimate large = estimate_memory(config, *gemm, 10000, 1);
  // 4 layers of (256·256 + 2·128·256 + 256·256 + 3·768·256) f32, and a little.
  const size_t matrices = 4 * (256 * 256 + 2 * 128 * 256 + 256 * 256 + 3 * 768 * 256) * 4;
  EXPECT_GE(small.packed_weights, matrices);
  EXPECT_LT(small.packed_weights, matrices * 11 / 10);
  EXPECT_EQ(small.mapped_weights, 8192U * 256U * 2U);
  EXPECT_GT(large.workspace, small.workspace * 10);
  EXPECT_LT(large.workspace, small.workspace * 100);
}

}  // namespace
}  // namespace espalier::models
