// The bundled model against its own golden.json: token ids in, embeddings and rerank scores out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/reference/gemm_backends.h"
#include "tests/reference/naive_plan.h"

namespace espalier::models {
namespace {

using engine::ConstMatView;
using engine::DedupMode;
using nlohmann::json;
using reference::TokenIds;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};

/// Of a rerank score to the exact one.
double score_tolerance(engine::NumberFormat format) {
  switch (format) {
    case engine::NumberFormat::kF32:
      return 1e-4;
    case engine::NumberFormat::kBf16:
      return 0.02;
    case engine::NumberFormat::kInt8:
      return 0.1;
  }
  return 0;
}

class GoldenModel : public ::testing::TestWithParam<reference::NamedBackend> {
 protected:
  void SetUp() override {
    model_.emplace(Model::load(ESPALIER_MINI_MODEL, GetParam().gemm,
                               std::make_shared<engine::ThreadPool>(2), {}));
    std::ifstream stream(std::string(ESPALIER_MINI_MODEL) + "/golden.json");
    golden_ = json::parse(stream);
    for (const json& entry : golden_["embeddings"]) embedding_ids_.push_back(entry["ids"]);
    for (const json& entry : golden_["rerank"]) rerank_ids_.push_back(entry["ids"]);
    ASSERT_EQ(embedding_ids_.size(), 12U);
    ASSERT_EQ(rerank_ids_.size(), 6U);
  }

  /// The last hidden state of each sequence, from one batch.
  std::vector<std::vector<float>> last_states(const std::vector<TokenIds>& sequences,
                                              DedupMode dedup) {
    const engine::BatchPlan plan = reference::naive_plan(sequences, dedup);
    const ConstMatView states = model_->forward_pass().run(plan, {});
    std::vector<std::vector<float>> result;
    for (const engine::SequenceEnd& end : plan.ends) {
      const auto wanted = std::ranges::lower_bound(plan.wanted_rows, end.row);
      const auto row = states.row(static_cast<size_t>(wanted - plan.wanted_rows.begin()));
      result.emplace_back(row.begin(), row.end());
    }
    return result;
  }

  void expect_embedding(size_t index, const std::vector<float>& state) const {
    const std::vector<float> embedding = model_->embed(state, std::nullopt);
    const std::vector<double> expected = golden_["embeddings"][index]["embedding"];
    ASSERT_EQ(embedding.size(), expected.size());
    const auto dot = [](const auto& a, const auto& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double cosine =
        dot(embedding, expected) / std::sqrt(dot(embedding, embedding) * dot(expected, expected));
    EXPECT_GT(cosine, GetParam().least_cosine()) << golden_["embeddings"][index]["input"];
    EXPECT_NEAR(dot(embedding, embedding), 1.0, 1e-5);
  }

  void expect_score(size_t index, const std::vector<float>& state) const {
    const json& expected = golden_["rerank"][index];
    const float yes = model_->token_logit(state, golden_["token_yes"]);
    const float no = model_->token_logit(state, golden_["token_no"]);
    if (GetParam().format() == engine::NumberFormat::kF32) {
      EXPECT_NEAR(yes, expected["logit_yes"].get<double>(), 1e-3);
      EXPECT_NEAR(no, expected["logit_no"].get<double>(), 1e-3);
    }
    EXPECT_NEAR(1.0 / (1.0 + std::exp(no - yes)), expected["score"].get<double>(),
                score_tolerance(GetParam().format()));
  }

  std::optional<Model> model_;
  json golden_;
  std::vector<TokenIds> embedding_ids_, rerank_ids_;
};

INSTANTIATE_TEST_SUITE_P(EveryBackend, GoldenModel,
                         ::testing::ValuesIn(reference::offered_backends()),
                         [](const auto& test) { return test.param.name; });

TEST_P(GoldenModel, EachTextAloneInEveryMode) {
  for (const DedupMode dedup : kModes) {
    for (size_t i = 0; i < embedding_ids_.size(); ++i) {
      expect_embedding(i, last_states({embedding_ids_[i]}, dedup)[0]);
    }
    for (size_t i = 0; i < rerank_ids_.size(); ++i) {
      expect_score(i, last_states({rerank_ids_[i]}, dedup)[0]);
    }
  }
}

TEST_P(GoldenModel, EmbeddingsAndRerankPromptsInOneBatchInEveryMode) {
  std::vector<TokenIds> together = embedding_ids_;
  together.insert(together.end(), rerank_ids_.begin(), rerank_ids_.end());
  for (const DedupMode dedup : kModes) {
    const std::vector<std::vector<float>> states = last_states(together, dedup);
    for (size_t i = 0; i < embedding_ids_.size(); ++i) expect_embedding(i, states[i]);
    for (size_t i = 0; i < rerank_ids_.size(); ++i) {
      expect_score(i, states[embedding_ids_.size() + i]);
    }
  }
}

}  // namespace
}  // namespace espalier::models
