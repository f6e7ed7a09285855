#include "server/api/loading_routes.h"

#include <chrono>
#include <string>

#include "server/api/error_form.h"
#include "server/api/route_paths.h"

namespace espalier::server {
namespace {

/// Large models take minutes; who asks again sooner only asks in vain.
constexpr std::chrono::seconds kRetryAfter{5};

HttpResponse loading_answer(ErrorForm form) {
  ApiError error;
  error.kind = ErrorKind::kLoading;
  error.message = "the server is loading its models; try again soon";
  error.code = "model_loading";
  error.retry_after = kRetryAfter;
  return error_response(error, form);
}

Route loading_route(const char* method, const char* path, ErrorForm form) {
  return {
      method, path, [form](const HttpRequest&) { return loading_answer(form); },
      [form](const HttpRequest&) -> std::optional<HttpResponse> { return loading_answer(form); },
      [form](const ApiError& error) { return error_response(error, form); }};
}

}  // namespace

std::vector<Route> loading_routes() {
  std::vector<Route> routes;
  for (const char* method : {"GET", "POST"}) {
    // Routes that come later take precedence.
    for (const char* path : {kPagePath, "/*"}) {
      routes.push_back(loading_route(method, path, ErrorForm::kOpenAi));
    }
  }
  for (const char* path :
       {kTeiEmbedPath, kTeiEmbedAllPath, kTeiSimilarityPath, kTeiTokenizePath, kTeiDecodePath}) {
    routes.push_back(loading_route("POST", path, ErrorForm::kTei));
  }
  return routes;
}

}  // namespace espalier::server
