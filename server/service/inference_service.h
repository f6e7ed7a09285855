// Typed requests in, typed answers out: prompts, tokenizing, truncation, admission, waiting, heads.
// Knows no HTTP and no JSON; the HTTP routes and the command line both call it.
//
// Thread contract: every member may be called from many threads at once; those that compute block
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
#include "server/service/input_options.h"
#include "server/service/request_deadline.h"
#include "server/service/request_report.h"
#include "server/service/request_trie.h"
#include "server/service/served_model.h"
#include "server/service/tokenizer_threads.h"

namespace espalier::server {

using TokenIds = std::vector<uint32_t>;
/// Text, or token ids used as they are (the end token is appended unless it is there).
using EmbeddingInput = std::variant<std::string, TokenIds>;

struct EmbeddingRequest {
  std::vector<EmbeddingInput> inputs;  // at least one
  std::string field = "input";         // of the request that holds them: errors name it
  bool single = false;                 // it held one input rather than a list
  std::string first_field;             // that holds the first one alone, `field` the others
  std::string model;                   // as sent; empty if absent
  InputOptions options;
  std::optional<size_t> dimensions;
  const char* dimensions_field = "dimensions";  // that holds them
  std::optional<bool> normalize;                // absent: as the model says
  bool wants_trie = false;
  bool returns_texts = false;        // in the answer
  size_t text_bytes_per_value = 26;  // of the answer at most: numbers, twice while the text grows

  /// What the request calls input `index`: "input[3]".
  std::string input_name(size_t index) const;
};

struct EmbeddingAnswer {
  std::vector<std::vector<float>> embeddings;  // in the order of the inputs
  std::optional<RequestTrie> trie;
};

struct TokenEmbeddingAnswer {
  std::vector<std::vector<float>>
      hidden_states;  // of each input: (tokens × hidden_size), row-major
  size_t hidden_size = 0;
};

/// Documents, each with the one query or with its own.
struct ScoreRequest {
  std::vector<std::string> queries;    // one, or as many as documents
  std::vector<std::string> documents;  // at least one
  std::string query_field = "query";   // of the request that holds them: errors name it
  std::string document_field = "documents";
  bool single_document = false;  // the field held one document rather than a list
  std::string model;
  std::optional<std::string> instruction;
  std::optional<size_t> query_tokens_max;       // the rest of a query is cut off
  std::optional<size_t> document_tokens_max;    // … of a document
  std::optional<size_t> tokens_max;             // of query, document and template together
  Truncation truncation = Truncation::kCutEnd;  // kCutStart is none for documents
  bool raw_scores = false;                      // shown as logits rather than P(yes)
  bool wants_trie = false;
  bool returns_documents = false;
};

/// What a score is before it becomes a relevance.
enum class ScoreScale : uint8_t {
  kLogit,   // of a reranker
  kCosine,  // of two embeddings, −1 … 1
};

struct ScoreAnswer {
  std::vector<double> logits;  // in the order of the documents, finite; relevance() of each
  ScoreScale scale = ScoreScale::kLogit;
  std::optional<RequestTrie> trie;
};

struct TokenizeRequest {
  std::vector<std::string> texts;
  std::string model;
  InputOptions options;  // the prompt and add_special_tokens; nothing is cut
};

struct TokenizedText {
  std::string text;  // with its prompt
  std::vector<text::TokenWithOffsets> tokens;
};

struct DecodeRequest {
  std::vector<TokenIds> ids;
  std::string model;
  bool skip_special_tokens = true;
};

/// In [0, 1]: the sigmoid of a logit, which is P(yes), or (1 + cosine) / 2.
float relevance(double score, ScoreScale scale = ScoreScale::kLogit);

struct RankedDocument {
  size_t index = 0;
  double logit = 0;
};

/// Best first, equally relevant ones by index; `top_n` of them, absent: all.
std::vector<RankedDocument> best_first(const std::vector<double>& logits,
                                       std::optional<size_t> top_n);

/// Asked now and then while a request waits; true: nobody wants the answer any more.
using ClientGone = std::function<bool()>;

/// Asked before an answer is computed that takes up to `bytes`, its text included: waits for the
/// memory, or says why there is none.
using ReserveAnswer =
    std::function<std::optional<ApiError>(size_t bytes, const Interruption& interruption)>;

/// Who asks, and how long they will wait.
struct Caller {
  Identity identity;
  std::optional<AskedTimeout> timeout;  // absent: as long as the server lets them
  ClientGone gone;                      // may be empty: never
  ReserveAnswer reserve;                // may be empty: there is memory
};

/// The largest requests that are let in.
struct RequestLimits {
  size_t inputs = 2048;  // or documents
  size_t tokens = 0;     // of all inputs; 0: whatever fits the queue
};

class InferenceService {
 public:
  /// `scheduler` must outlive the service. `tokenizer_threads` may serve several services; null:
  /// one thread of its own.
  InferenceService(ServedModel model, scheduler::Scheduler& scheduler,
                   std::shared_ptr<TokenizerThreads> tokenizer_threads = nullptr,
                   const RequestLimits& limits = {});

  Result<EmbeddingAnswer> embed(const EmbeddingRequest& request, const Caller& caller,
                                RequestReport& report) const;
  /// The final hidden states of every token, neither pooled nor normalised; `dimensions` and
  /// `normalize` do not apply. At most kTokenEmbeddingValuesMax values.
  Result<TokenEmbeddingAnswer> embed_tokens(const EmbeddingRequest& request, const Caller& caller,
                                            RequestReport& report) const;
  Result<ScoreAnswer> score(const ScoreRequest& request, const Caller& caller,
                            RequestReport& report) const;

  Result<std::vector<TokenizedText>> tokenize(const TokenizeRequest& request, const Caller& caller,
                                              RequestReport& report) const;
  Result<std::vector<std::string>> decode(const DecodeRequest& request, const Caller& caller,
                                          RequestReport& report) const;

  const ServedModel& model() const { return model_; }
  const RequestLimits& limits() const { return limits_; }

 private:
  class Run;

  ServedModel model_;
  scheduler::Scheduler& scheduler_;
  RequestLimits limits_;
  std::shared_ptr<TokenizerThreads> tokenizer_threads_;
};

/// Values of one embed_tokens() answer: one input of 8 192 tokens of a model with H = 1 024.
inline constexpr size_t kTokenEmbeddingValuesMax = size_t{1} << 23U;

}  // namespace espalier::server
