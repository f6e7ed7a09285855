#include "server/api/api_routes.h"

#include <string>
#include <utility>

#include "server/api/cohere_routes.h"
#include "server/api/inference_call.h"
#include "server/api/openai_routes.h"
#include "server/api/rerank_routes.h"
#include "server/api/route_paths.h"
#include "server/api/stats_json.h"
#include "server/api/tei_routes.h"
#include "server/debug/timeline_json.h"
#include "server/debug/trie_svg.h"
#include "server/debug/trie_text.h"

namespace espalier::server {
namespace {

HttpResponse get_readiness(const ApiContext& context) {
  if (context.scheduler != nullptr && context.ready()) return json_response(R"({"status":"ok"})");
  HttpResponse response = json_response(context.scheduler == nullptr ? R"({"status":"loading"})"
                                                                     : R"({"status":"draining"})");
  response.status = 503;
  return response;
}

void append(std::vector<Route> more, std::vector<Route>& routes) {
  for (Route& route : more) routes.push_back(std::move(route));
}

std::vector<std::string> names_of(const ModelDirectory& models) {
  std::vector<std::string> names;
  for (const auto* const service : models.services()) names.push_back(service->model().name);
  return names;
}

/// `get(path, handler)` makes a route of each.
template <typename Get>
std::vector<Route> debug_routes(const ApiContext& context, const Get& get) {
  const BatchRecorder* const recorder = context.recorder;
  if (recorder == nullptr) return {};
  return {
      get(kTimelinePath,
          [recorder, names = names_of(*context.models)](const HttpRequest&) {
            return json_response(timeline_json(recorder->batches(), recorder->started(), names));
          }),
      get(kTriePath,
          [recorder](const HttpRequest&) {
            return text_response("text/plain; charset=utf-8", trie_text(recorder->trie()));
          }),
      get(kTrieSvgPath,
          [recorder](const HttpRequest&) {
            return text_response("image/svg+xml", trie_svg(recorder->trie()));
          }),
  };
}

}  // namespace

std::vector<Route> api_routes(const ApiContext& context) {
  std::vector<Route> routes = openai_routes(context);
  append(rerank_routes(context), routes);
  append(cohere_routes(context), routes);
  append(tei_routes(context), routes);
  routes.push_back(guarded_get(context, kStatsPath, [context](const HttpRequest&) {
    return json_response(stats_json(context));
  }));
  append(debug_routes(context,
                      [&](const char* path, HttpHandler handler) {
                        return admin_get(context, path, std::move(handler));
                      }),
         routes);
  return routes;
}

std::vector<Route> admin_routes(const ApiContext& context) {
  const auto readiness = [context](const HttpRequest&) { return get_readiness(context); };
  return {
      open_get(kLivePath, [](const HttpRequest&) { return json_response(R"({"status":"ok"})"); }),
      open_get(kReadyPath, readiness),
      open_get(kHealthPath, readiness),
      open_get(kMetricsPath,
               [context](const HttpRequest&) {
                 std::vector<scheduler::QueueDepth> depths;
                 if (context.scheduler != nullptr) depths = context.scheduler->queue_depths();
                 return text_response("text/plain; version=0.0.4; charset=utf-8",
                                      context.metrics->exposition(depths));
               }),
  };
}

std::vector<Route> open_debug_routes(const ApiContext& context) {
  return debug_routes(context, [](const char* path, HttpHandler handler) {
    return open_get(path, std::move(handler));
  });
}

}  // namespace espalier::server
