// The models of reference.py, loaded and run here, against what numpy computed in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
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
using reference::TokenIds;
using reference::Wanted;
using Path = std::filesystem::path;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
// In f32, of components of hidden states after the final norm, whose RMS is about one; against
// float64.
constexpr double kHiddenTolerance = 2e-5;
constexpr double kLogitTolerance = 1e-4;

std::string read_file(const Path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file << " is missing: run reference.py first (CTest does)";
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<double> read_doubles(const Path& file) {
  const std::string bytes = read_file(file);
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

/// One model in one backend, its sequences, and numpy's results.
struct Case {
  std::string name;
  reference::NamedBackend backend;
  std::vector<TokenIds> sequences;
  std::vector<uint32_t> logit_ids;
  std::vector<double> hidden;  // (N × H)
  std::vector<double> logits;  // (S × logit_ids)
  Model model;

  /// The state of token `index` of sequence `s`.
  std::span<const double> state(size_t s, size_t index) const {
    size_t row = index;
    for (size_t before = 0; before < s; ++before) row += sequences[before].size();
    const size_t width = model.config().hidden_size;
    return {hidden.data() + row * width, width};
  }
  std::span<const double> last_state(size_t s) const { return state(s, sequences[s].size() - 1); }
};

std::vector<Case> load_cases() {
  std::vector<Case> cases;
  const auto pool = std::make_shared<engine::ThreadPool>(2);
  for (const auto& folder : std::filesystem::directory_iterator(ESPALIER_NUMPY_CASES)) {
    const auto json = nlohmann::json::parse(read_file(folder.path() / "sequences.json"));
    std::vector<Path> adapters;
    for (const auto& name : json.value("lora_adapters", std::vector<std::string>{})) {
      adapters.push_back(folder.path() / name);
    }
    for (const reference::NamedBackend& backend : reference::offered_backends()) {
      cases.push_back({.name = folder.path().filename().string() + ", " + backend.name,
                       .backend = backend,
                       .sequences = json["sequences"].get<std::vector<TokenIds>>(),
                       .logit_ids = json["logit_ids"].get<std::vector<uint32_t>>(),
                       .hidden = read_doubles(folder.path() / "hidden.f64"),
                       .logits = read_doubles(folder.path() / "logits.f64"),
                       .model = Model::load(folder.path(), backend.gemm, pool, {}, adapters)});
    }
  }
  return cases;
}

double cosine(std::span<const float> a, std::span<const double> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

double largest_error(std::span<const float> a, std::span<const double> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

class NumpyReference : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cases_ = new std::vector<Case>(load_cases()); }
  static void TearDownTestSuite() { delete cases_; }

  void SetUp() override { ASSERT_GE(cases_->size(), 14U); }
  static std::vector<Case>* cases_;
};
std::vector<Case>* NumpyReference::cases_ = nullptr;

TEST_F(NumpyReference, HiddenStatesOfAllTokensAgreeInEveryMode) {
  for (Case& c : *cases_) {
    for (const DedupMode dedup : kModes) {
      reference::NaivePlanner planner(c.sequences, dedup);
      const engine::BatchPlan plan = planner.plan(Wanted::kAllRows);
      const ConstMatView states = c.model.forward_pass().run(plan, {});
      double largest = 0, least_cosine = 1;
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        for (size_t i = 0; i < c.sequences[s].size(); ++i) {
          const auto state = states.row(planner.row_of(s, i));
          largest = std::max(largest, largest_error(state, c.state(s, i)));
          least_cosine = std::min(least_cosine, cosine(state, c.state(s, i)));
        }
      }
      std::cout << c.name << ", mode " << static_cast<int>(dedup) << ": largest error " << largest
                << ", least cosine 1 - " << 1 - least_cosine << "\n";
      if (c.backend.format() == engine::NumberFormat::kF32) {
        EXPECT_LE(largest, kHiddenTolerance) << c.name;
      }
      EXPECT_GT(least_cosine, c.backend.least_cosine()) << c.name;
    }
  }
}

TEST_F(NumpyReference, EmbeddingsAgreeAloneAndInOneBatch) {
  for (Case& c : *cases_) {
    for (const DedupMode dedup : kModes) {
      const auto plan = reference::naive_plan(c.sequences, dedup);
      const ConstMatView states = c.model.forward_pass().run(plan, {});
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        const auto wanted =
            std::lower_bound(plan.wanted_rows.begin(), plan.wanted_rows.end(), plan.ends[s].row);
        const auto row = static_cast<size_t>(wanted - plan.wanted_rows.begin());
        const std::vector<float> embedding = c.model.embed(states.row(row), std::nullopt);
        EXPECT_GT(cosine(embedding, c.last_state(s)), c.backend.least_cosine())
            << c.name << ", sequence " << s;
      }
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        const std::vector<TokenIds> alone = {c.sequences[s]};
        const ConstMatView state =
            c.model.forward_pass().run(reference::naive_plan(alone, dedup), {});
        const std::vector<float> embedding = c.model.embed(state.row(0), std::nullopt);
        EXPECT_GT(cosine(embedding, c.last_state(s)), c.backend.least_cosine())
            << c.name << ", sequence " << s;
      }
    }
  }
}

TEST_F(NumpyReference, LogitsAgreeWhereThereIsAHead) {
  size_t checked = 0;
  for (Case& c : *cases_) {
    EXPECT_EQ(c.model.has_head(), !c.logits.empty()) << c.name;
    if (c.logits.empty() || c.backend.format() != engine::NumberFormat::kF32) continue;
    for (size_t s = 0; s < c.sequences.size(); ++s) {
      const std::vector<TokenIds> alone = {c.sequences[s]};
      const ConstMatView state =
          c.model.forward_pass().run(reference::naive_plan(alone, DedupMode::kTrie), {});
      for (size_t k = 0; k < c.logit_ids.size(); ++k, ++checked) {
        const float logit = c.model.token_logit(state.row(0), c.logit_ids[k]);
        EXPECT_NEAR(logit, c.logits[s * c.logit_ids.size() + k], kLogitTolerance) << c.name;
      }
    }
  }
  EXPECT_GE(checked, 3U * 8U * 3U);
}

}  // namespace
}  // namespace espalier::models
