// A model as the front end sees it: how to turn text into ids and hidden states into answers. The
// commands fill it from the concrete types of text/ and models/.
//
// Thread contract: immutable once filled; its functions are called from many threads at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "text/rerank_prompt.h"
#include "text/tokenizer.h"

namespace espalier::server {

/// What a model was trained for: of several that can do a job, the one made for it does.
enum class ModelPurpose : uint8_t { kEmbedding, kReranking, kBoth };

struct ServedModel {
  std::string name;                      // in answers and in GET /v1/models
  std::vector<std::string> other_names;  // by which requests may ask for it, too
  ModelPurpose purpose = ModelPurpose::kBoth;
  std::string cannot_embed;            // why not, and what to do about it; empty: it can
  std::string cannot_rerank;           // likewise
  std::string dtype;                   // of the matrix products: "f32", "bf16", "int8"
  std::string pooling = "last_token";  // of embeddings
  scheduler::WantedRows pooled = scheduler::WantedRows::kLast;  // the same, for the scheduler
  size_t scheduler_index = 0;                                   // Submission::model
  const text::Tokenizer* tokenizer = nullptr;
  size_t hidden_size = 0;                   // H: values of a hidden state
  size_t embedding_size = 0;                // E: of the longest embedding; H without Dense
  std::vector<size_t> dimensions;           // that embeddings may be cut to; empty: all of 1 … E
  size_t vocab_size = 0;                    // token ids that a client sends must be below it
  size_t max_input_tokens = 0;              // of one input, special tokens included
  std::chrono::seconds request_timeout{0};  // then 504; 0: automatic, see request_deadline.h
  std::map<std::string, std::string> prompts;  // by prompt_name
  std::string default_prompt_name;             // empty: none

  bool can_embed() const { return cannot_embed.empty(); }
  bool can_rerank() const { return cannot_rerank.empty(); }

  /// Pooled hidden state (H) → embedding (E): cut to `dimensions`, then normalised (L2) if
  /// `normalize`; absent: as the model says.
  std::function<std::vector<float>(std::span<const float> hidden, std::optional<size_t> dimensions,
                                   std::optional<bool> normalize)>
      embed;

  /// Of a model that reranks by a template; one that can_rerank() without it ranks by the cosine of
  /// embeddings.
  std::optional<text::RerankPrompt> rerank_prompt;
  /// Last hidden state (H) → logit of relevance; its sigmoid is the score.
  std::function<double(std::span<const float> hidden)> relevance_logit;
};

}  // namespace espalier::server
