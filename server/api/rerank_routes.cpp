#include "server/api/rerank_routes.h"

#include <string>

#include "server/api/inference_call.h"
#include "server/api/rerank_json.h"
#include "server/api/route_paths.h"
#include "server/api/score_json.h"

namespace espalier::server {
namespace {

Result<std::string> post_rerank(InferenceCall& call) {
  bool tei = false;
  const auto body = parse_rerank_body(call.http.body, tei);
  if (tei) call.error_form = ErrorForm::kTei;
  if (!body) return tl::unexpected(body.error());
  const auto answer = call.score(body->request);
  if (!answer) return tl::unexpected(answer.error());
  if (body->tei) return render_tei_rerank(*answer, *body);
  return render_rerank(*answer, *body, call.http.id, call.model().name, call.report.tokens);
}

Result<std::string> post_score(InferenceCall& call) {
  const auto request = parse_score_body(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.score(*request);
  if (!answer) return tl::unexpected(answer.error());
  return render_scores(*answer, request->raw_scores, call.http.id, call.model().name,
                       call.report.tokens);
}

}  // namespace

std::vector<Route> rerank_routes(const ApiContext& context) {
  std::vector<Route> routes;
  for (const char* const path : kRerankPaths)
    routes.push_back(inference_route(context, path, ErrorForm::kOpenAi, post_rerank));
  for (const char* const path : kScorePaths)
    routes.push_back(inference_route(context, path, ErrorForm::kOpenAi, post_score));
  return routes;
}

}  // namespace espalier::server
