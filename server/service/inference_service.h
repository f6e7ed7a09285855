// Typed requests in, typed answers out: prompts, tokenizing, truncation, admission, waiting, heads.
// Knows no HTTP and no JSON; the HTTP routes and the command line both call it.
//
// Thread contract: every member may be called from many threads at once; embed() and rerank() block
// until the answer is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/access/identity.h"
#include "server/api_error.h"
#include "server/service/request_deadline.h"
#include "server/service/served_model.h"
#include "server/service/tokenizer_threads.h"

namespace espalier::server {

using TokenIds = std::vector<uint32_t>;
/// Text, or token ids used as they are (the end token is appended unless it is there).
using EmbeddingInput = std::variant<std::string, TokenIds>;

enum class EmbeddingEncoding : uint8_t { kFloat, kBase64 };

struct EmbeddingRequest {
  std::vector<EmbeddingInput> inputs;  // 1 … 2 048
  bool single = false;  // `input` was one text or one list of ids: names errors' param
  std::string model;    // as sent; empty if absent
  EmbeddingEncoding encoding = EmbeddingEncoding::kFloat;
  std::optional<size_t> dimensions;
  std::optional<std::string> prompt_name;
  std::optional<std::string> instruction;  // not together with prompt_name
  bool truncate = true;
};

struct EmbeddingAnswer {
  std::vector<std::vector<float>> embeddings;  // in the order of the inputs
  size_t prompt_tokens = 0;
};

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;  // at least one
  std::string model;
  std::optional<std::string> instruction;
  std::optional<size_t> top_n;  // absent: all
  bool return_documents = false;
  bool truncate = true;
};

struct RankedDocument {
  size_t index = 0;
  float relevance_score = 0;  // in [0, 1]
};

struct RerankAnswer {
  std::vector<RankedDocument> results;  // best first, ties by index; top_n of them
  size_t prompt_tokens = 0;
};

/// How long the stages of a request took, for metrics and logs; filled also when it fails later on.
struct StageTimes {
  double tokenize_seconds = 0;
  double queue_seconds = 0;
  double compute_seconds = 0;
};

/// Asked now and then while a request waits; true: nobody wants the answer any more.
using ClientGone = std::function<bool()>;

/// Who asks, and how long they will wait.
struct Caller {
  Identity identity;
  std::optional<AskedTimeout> timeout;  // absent: as long as the server lets them
  ClientGone gone;                      // may be empty: never
};

class InferenceService {
 public:
  /// `scheduler` must outlive the service. Inputs are tokenized on `tokenizer_threads` of its own.
  InferenceService(ServedModel model, scheduler::Scheduler& scheduler,
                   size_t tokenizer_threads = 1);

  Result<EmbeddingAnswer> embed(const EmbeddingRequest& request, const Caller& caller,
                                StageTimes& times) const;
  Result<RerankAnswer> rerank(const RerankRequest& request, const Caller& caller,
                              StageTimes& times) const;

  const ServedModel& model() const { return model_; }

 private:
  ServedModel model_;
  scheduler::Scheduler& scheduler_;
  std::unique_ptr<TokenizerThreads> tokenizer_threads_;
};

}  // namespace espalier::server
