#include "server/api/tei_routes.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/api/inference_call.h"
#include "server/api/model_json.h"
#include "server/api/route_paths.h"
#include "server/api/tei_json.h"
#include "server/api/tei_tokenize_json.h"

namespace espalier::server {
namespace {

Result<std::string> post_embed(InferenceCall& call) {
  const auto request = parse_tei_embed(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.embed(*request);
  if (!answer) return tl::unexpected(answer.error());
  return render_tei_embeddings(*answer);
}

Result<std::string> post_embed_all(InferenceCall& call) {
  const auto request = parse_tei_embed(call.http.body, TeiVectors::kTokens);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.embed_tokens(*request);
  if (!answer) return tl::unexpected(answer.error());
  return render_token_embeddings(*answer);
}

Result<std::string> post_similarity(InferenceCall& call) {
  const auto request = parse_similarity(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.embed(*request);
  if (!answer) return tl::unexpected(answer.error());
  return render_similarities(*answer);
}

Result<std::string> post_tokenize(InferenceCall& call) {
  const auto request = parse_tokenize(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto tokens = call.tokenize(*request);
  if (!tokens) return tl::unexpected(tokens.error());
  return render_tokens(*tokens, *call.model().tokenizer);
}

Result<std::string> post_decode(InferenceCall& call) {
  const auto request = parse_decode(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto texts = call.decode(*request);
  if (!texts) return tl::unexpected(texts.error());
  return render_texts(*texts);
}

/// What of text-embeddings-inference's answer is about one model.
nlohmann::ordered_json model_info(const ServedModel& model) {
  return {{"model_id", model.name},
          {"model_dtype", model.dtype},
          {"model_type", tei_model_type(model)},
          {"max_input_length", model.max_input_tokens}};
}

/// What the server is and takes, under text-embeddings-inference's names: of the first model, and,
/// where there are several, `models` of each.
std::string info_json(const ApiContext& context) {
  const ServedModel& model = context.models->first().model();
  nlohmann::ordered_json info = {
      {"model_id", model.name},
      {"model_sha", nullptr},
      {"model_dtype", model.dtype},
      {"model_type", tei_model_type(model)},
      {"max_concurrent_requests", context.limits.concurrent_requests},
      {"max_input_length", model.max_input_tokens},
      {"max_batch_tokens", context.limits.batch_tokens},
      {"max_batch_requests", nullptr},
      {"max_client_batch_size", context.models->first().limits().inputs},
      {"auto_truncate", true},
      {"tokenization_workers", context.limits.tokenizer_threads},
      {"version", context.version},
      {"sha", nullptr},
      {"docker_label", nullptr},
  };
  if (context.models->has_several()) {
    for (const auto* const service : context.models->services())
      info["models"].push_back(model_info(service->model()));
  }
  return as_text(info);
}

}  // namespace

std::vector<Route> tei_routes(const ApiContext& context) {
  return {
      inference_route(context, kTeiEmbedPath, ErrorForm::kTei, post_embed),
      inference_route(context, kTeiEmbedAllPath, ErrorForm::kTei, post_embed_all),
      inference_route(context, kTeiSimilarityPath, ErrorForm::kTei, post_similarity),
      inference_route(context, kTeiTokenizePath, ErrorForm::kTei, post_tokenize),
      inference_route(context, kTeiDecodePath, ErrorForm::kTei, post_decode),
      guarded_get(context, kTeiInfoPath,
                  [info = info_json(context)](const HttpRequest&) { return json_response(info); }),
  };
}

}  // namespace espalier::server
