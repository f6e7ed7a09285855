#include "server/api/cohere_routes.h"

#include "server/api/cohere_json.h"
#include "server/api/inference_call.h"
#include "server/api/route_paths.h"

namespace espalier::server {
namespace {

InferenceHandler post_embed(CohereVersion version) {
  return [version](InferenceCall& call) -> Result<std::string> {
    const auto body = parse_cohere_embed(call.http.body, version);
    if (!body) return tl::unexpected(body.error());
    const auto answer = call.embed(body->request);
    if (!answer) return tl::unexpected(answer.error());
    return render_cohere_embed(*answer, *body, version, call.http.id, call.report.tokens);
  };
}

}  // namespace

std::vector<Route> cohere_routes(const ApiContext& context) {
  return {inference_route(context, kCohereV1EmbedPath, ErrorForm::kOpenAi,
                          post_embed(CohereVersion::kV1)),
          inference_route(context, kCohereV2EmbedPath, ErrorForm::kOpenAi,
                          post_embed(CohereVersion::kV2))};
}

}  // namespace espalier::server
