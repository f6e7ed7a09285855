// What all routes have in common that compute something: who asks, JSON alone, headers that tell
// what it cost, errors in the form that the route's clients read.
//
// Thread contract: functions without state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/api/api_context.h"
#include "server/api/error_form.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// One request to such a route.
struct InferenceCall {
  const HttpRequest& http;
  const ModelDirectory& models;
  Caller caller;
  RequestReport report;
  ErrorForm error_form;  // a route that serves several kinds of clients may change it
  const InferenceService* chosen = nullptr;  // by what was asked for last
  MemoryPool::Share reading = {};  // for parsing the body; of it remains, once that is done,
  size_t request_bytes = 0;        // … what the request itself takes
  size_t reading_bytes = 0;        // of what it was at first
  MemoryPool::Share answer = {};

  // Those of InferenceService, by the model that the request asks for (ModelDirectory::choose).
  Result<EmbeddingAnswer> embed(const EmbeddingRequest& request);
  Result<TokenEmbeddingAnswer> embed_tokens(const EmbeddingRequest& request);
  Result<ScoreAnswer> score(const ScoreRequest& request);
  Result<std::vector<TokenizedText>> tokenize(const TokenizeRequest& request);
  Result<std::vector<std::string>> decode(const DecodeRequest& request);

  /// The model that answered; only after it has.
  const ServedModel& model() const { return chosen->model(); }
};

/// The body of the answer: parses call.http.body, computes, renders.
using InferenceHandler = std::function<Result<std::string>(InferenceCall& call)>;

/// POST `path`. Whoever may not ask, or asks for a nonsensical time, is told so before the body is
/// read.
Route inference_route(const ApiContext& context, const char* path, ErrorForm error_form,
                      InferenceHandler handler);

/// GET `path`, for those who have a key.
Route guarded_get(const ApiContext& context, const char* path, HttpHandler handler);
/// GET `path`, for those who have an admin's key; without keys for everyone.
Route admin_get(const ApiContext& context, const char* path, HttpHandler handler);
/// GET `path`, for everyone.
Route open_get(const char* path, HttpHandler handler);

/// 200 with a JSON body.
HttpResponse json_response(std::string body);
/// 200 with another text.
HttpResponse text_response(const char* content_type, std::string body);

}  // namespace espalier::server
