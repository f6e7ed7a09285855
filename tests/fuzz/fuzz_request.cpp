// Any bytes as the body of a request: every parser gives a request that keeps its promises, or a
// 4xx with a message that can be sent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/cohere_json.h"
#include "server/api/embeddings_json.h"
#include "server/api/rerank_json.h"
#include "server/api/score_json.h"
#include "server/api/tei_json.h"
#include "server/api_error.h"

namespace {

using namespace espalier::server;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_error(const ApiError& error) {
  const int status = http_status(error.kind);
  require(status >= 400 && status < 500 && !error.message.empty());
  require(!error_body(error).empty());
}

void check_request(const EmbeddingRequest& request) {
  require(!request.inputs.empty());
  require(!request.single || request.inputs.size() == 1);
  require(!request.dimensions || *request.dimensions >= 1);
  require(!request.options.tokens_max || *request.options.tokens_max >= 1);
  for (size_t i = 0; i < request.inputs.size(); ++i) require(!request.input_name(i).empty());
}

template <typename Parsed, typename Check>
void check(const Result<Parsed>& parsed, const Check& good) {
  if (parsed) return good(*parsed);
  check_error(parsed.error());
}

void check_scores(const ScoreRequest& request) {
  require(!request.documents.empty());
  require(request.queries.size() == 1 || request.queries.size() == request.documents.size());
  require(request.truncation != Truncation::kCutStart);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check(parse_embeddings_body(body), [](const auto& parsed) { check_request(parsed.request); });
  for (const auto version : {CohereVersion::kV1, CohereVersion::kV2})
    check(parse_cohere_embed(body, version),
          [](const auto& parsed) { check_request(parsed.request); });
  check(parse_tei_embed(body), check_request);
  check(parse_similarity(body), check_request);
  bool tei = false;
  check(parse_rerank_body(body, tei), [](const auto& parsed) { check_scores(parsed.request); });
  check(parse_score_body(body), check_scores);
  return 0;
}
