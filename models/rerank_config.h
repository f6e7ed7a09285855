// How a model folder says that hidden states become scores of relevance: …ForSequenceClassification
// in config.json, or sentence-transformers' LogitScore module.
//
// Plain data. The reader throws std::runtime_error naming file, key and reason for whatever is
// missing, of the wrong type or range, or would change results and is not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::models {

/// 1_LogitScore/config.json: the score is the logit of one token, less that of the other.
struct LogitScore {
  uint32_t true_token = 0;
  std::optional<uint32_t> false_token;
};

struct RerankConfig {
  /// Rows of score.weight, 1 or 2; 0: the model has no classification head.
  size_t labels = 0;
  bool first_label_is_relevant = false;  // of two, as their names say; else the second
  /// A classification head that is not in the file but made of the rows of the language model's
  /// head, as vLLM's conversions say: one token, or {no, yes}. Then `labels` is 0.
  std::vector<std::string> classifier_tokens;
  std::optional<LogitScore> logit_score;
  bool from_logit_score_module = false;  // modules.json says that it reranks

  /// Whether the files say that the model scores pairs, which a language model alone does not.
  bool says_so() const {
    return labels > 0 || !classifier_tokens.empty() || logit_score.has_value();
  }
};

/// `model`: a folder, or a GGUF file.
RerankConfig read_rerank_config(const std::filesystem::path& model);

}  // namespace espalier::models
