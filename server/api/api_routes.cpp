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

HttpResponse get_health(const ApiContext& context) {
  if (context.ready()) return json_response(R"({"status":"ok"})");
  HttpResponse response = json_response(R"({"status":"draining"})");
  response.status = 503;
  return response;
}

void append(std::vector<Route> more, std::vector<Route>& routes) {
  for (Route& route : more) routes.push_back(std::move(route));
}

std::vector<Route> debug_routes(const ApiContext& context) {
  const BatchRecorder& recorder = *context.recorder;
  return {
      guarded_get(context, kTimelinePath,
                  [&recorder](const HttpRequest&) {
                    return json_response(timeline_json(recorder.batches(), recorder.started()));
                  }),
      guarded_get(context, kTriePath,
                  [&recorder](const HttpRequest&) {
                    return text_response("text/plain; charset=utf-8", trie_text(recorder.trie()));
                  }),
      guarded_get(context, kTrieSvgPath,
                  [&recorder](const HttpRequest&) {
                    return text_response("image/svg+xml", trie_svg(recorder.trie()));
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
  routes.push_back(
      open_get(kHealthPath, [context](const HttpRequest&) { return get_health(context); }));
  routes.push_back(open_get(kMetricsPath, [context](const HttpRequest&) {
    return text_response("text/plain; version=0.0.4; charset=utf-8",
                         context.metrics->exposition(context.scheduler->queue_depth()));
  }));
  if (context.recorder != nullptr) append(debug_routes(context), routes);
  return routes;
}

}  // namespace espalier::server
