// Any bytes as the body of a request: both parsers give a request that keeps its promises, or a 4xx
// with a message that can be sent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/embeddings_json.h"
#include "server/api/rerank_json.h"
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

void check_embedding(std::string_view body) {
  const auto request = parse_embedding_request(body);
  if (!request) return check_error(request.error());
  require(!request->inputs.empty() && request->inputs.size() <= kEmbeddingInputsMax);
  require(!request->single || request->inputs.size() == 1);
  require(!request->dimensions || *request->dimensions >= 1);
  require(!(request->prompt_name && request->instruction));
  for (const auto& input : request->inputs)
    require(std::visit([](const auto& entries) { return !entries.empty(); }, input));
}

void check_rerank(std::string_view body) {
  const auto request = parse_rerank_request(body);
  if (!request) return check_error(request.error());
  require(!request->query.empty());
  require(!request->documents.empty() && request->documents.size() <= kRerankDocumentsMax);
  require(!request->top_n || *request->top_n >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check_embedding(body);
  check_rerank(body);
  return 0;
}
