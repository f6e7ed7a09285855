// The same text gives the same bits: alone, in any batch, in every dedup mode, with any number of
// threads. Promised by our own kernels in every number format (docs/NUMERICS.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/reference/gemm_backends.h"
#include "tests/reference/naive_plan.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::DedupMode;
using reference::TokenIds;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
constexpr size_t kTexts = 24;
constexpr uint32_t kVocabulary = 8192;

std::vector<reference::NamedBackend> backends_with_fixed_bits() {
  std::vector<reference::NamedBackend> backends = reference::offered_backends();
  std::erase_if(backends, [](const auto& backend) { return !backend.fixed_bits; });
  return backends;
}

TokenIds random_tokens(std::mt19937& random, size_t count) {
  TokenIds ids(count);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % kVocabulary);
  return ids;
}

/// Texts of 1 to 300 tokens, two thirds of which begin like another one.
std::vector<TokenIds> make_texts(std::mt19937& random) {
  std::vector<TokenIds> texts;
  while (texts.size() < kTexts) {
    TokenIds ids;
    if (!texts.empty() && random() % 3 != 0) {
      const TokenIds& other = texts[random() % texts.size()];
      ids.assign(other.begin(), other.begin() + static_cast<long>(random() % (other.size() + 1)));
    }
    const TokenIds tail = random_tokens(random, 1 + random() % (random() % 2 == 0 ? 12 : 180));
    ids.insert(ids.end(), tail.begin(), tail.end());
    if (ids.size() <= 300) texts.push_back(ids);
  }
  return texts;
}

/// A model with every step that the bundled one lacks: biases everywhere, GELU, stretched rotary
/// embedding.
void write_llama(const test::TemporaryFolder& folder) {
  test::TinyModel model({.layers = 3,
                         .hidden = 96,
                         .intermediate = 200,
                         .query_heads = 6,
                         .kv_heads = 2,
                         .head_dim = 24,
                         .vocabulary = kVocabulary});
  model.set_family("llama");
  for (const char* product :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    model.add_biases(product);
  }
  model.config["attention_bias"] = model.config["mlp_bias"] = "true";
  model.config["hidden_act"] = "\"gelu\"";
  model.config["rope_scaling"] =
      R"({"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 64})";
  model.write(folder);
}

class BitEquality : public ::testing::TestWithParam<reference::NamedBackend> {
 protected:
  static Model load(const std::filesystem::path& folder, size_t threads) {
    return Model::load(folder, GetParam().gemm, std::make_shared<engine::ThreadPool>(threads), {});
  }

  static void expect_the_same_bits_everywhere(const std::filesystem::path& folder);

  /// The final state of each sequence's last token.
  static std::vector<std::vector<float>> run(Model& model, const std::vector<TokenIds>& sequences,
                                             DedupMode dedup) {
    const engine::BatchPlan plan = reference::naive_plan(sequences, dedup);
    const engine::ConstMatView states = model.forward_pass().run(plan, {});
    std::vector<std::vector<float>> result;
    for (const engine::SequenceEnd& end : plan.ends) {
      const auto at = std::ranges::lower_bound(plan.wanted_rows, end.row);
      const auto row = states.row(static_cast<size_t>(at - plan.wanted_rows.begin()));
      result.emplace_back(row.begin(), row.end());
    }
    return result;
  }

  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

INSTANTIATE_TEST_SUITE_P(NativeKernels, BitEquality,
                         ::testing::ValuesIn(backends_with_fixed_bits()),
                         [](const auto& test) { return test.param.name; });

void BitEquality::expect_the_same_bits_everywhere(const std::filesystem::path& folder) {
  std::mt19937 random(20);
  const std::vector<TokenIds> texts = make_texts(random);
  Model models[] = {load(folder, 1), load(folder, 2), load(folder, 3)};
  std::vector<std::vector<float>> alone;
  for (const TokenIds& text : texts) alone.push_back(run(models[0], {text}, DedupMode::kOff)[0]);

  for (size_t batch = 0; batch < 24; ++batch) {
    // 1 to 64 texts, known ones and strangers, in any order.
    const size_t size = batch == 0 ? 1 : batch == 1 ? 64 : 2 + random() % 63;
    std::vector<TokenIds> sequences;
    std::vector<std::optional<size_t>> known;
    for (size_t i = 0; i < size; ++i) {
      if (random() % 4 != 0) {
        known.emplace_back(random() % kTexts);
        sequences.push_back(texts[*known.back()]);
      } else {
        known.emplace_back();
        sequences.push_back(random_tokens(random, 1 + random() % 90));
      }
    }
    for (const DedupMode dedup : kModes) {
      Model& model = models[random() % std::size(models)];
      const std::vector<std::vector<float>> states = run(model, sequences, dedup);
      for (size_t i = 0; i < size; ++i) {
        if (!known[i]) continue;
        ASSERT_TRUE(same_bits(states[i], alone[*known[i]]))
            << "batch " << batch << " of " << size << ", mode " << static_cast<int>(dedup)
            << ", text " << *known[i] << " of " << sequences[i].size() << " tokens";
      }
    }
  }
}

TEST_P(BitEquality, ATextGivesTheSameBitsInAnyBatchModeAndNumberOfThreads) {
  expect_the_same_bits_everywhere(ESPALIER_MINI_MODEL);
}

TEST_P(BitEquality, SoDoBiasesGeluAndStretchedRotaryEmbedding) {
  const test::TemporaryFolder folder;
  write_llama(folder);
  expect_the_same_bits_everywhere(folder.path());
}

}  // namespace
}  // namespace espalier::models
