#include "server/api/openai_routes.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/api/embeddings_json.h"
#include "server/api/inference_call.h"
#include "server/api/model_json.h"
#include "server/api/percent_decoding.h"
#include "server/api/route_paths.h"

namespace espalier::server {
namespace {

using nlohmann::ordered_json;

Result<std::string> post_embeddings(InferenceCall& call) {
  const auto body = parse_embeddings_body(call.http.body);
  if (!body) return tl::unexpected(body.error());
  const auto answer = call.embed(body->request);
  if (!answer) return tl::unexpected(answer.error());
  return render_embeddings(*answer, body->encoding, call.model().name, call.report.tokens);
}

/// Of this process's models; clients sort by it.
int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

HttpResponse get_models(const ModelDirectory& models, int64_t created) {
  ordered_json data = ordered_json::array();
  for (const auto* const service : models.services())
    data.push_back(model_json(service->model(), created));
  return json_response(as_text({{"object", "list"}, {"data", std::move(data)}}));
}

HttpResponse get_model(const ModelDirectory& models, int64_t created, const HttpRequest& request) {
  const auto above = std::string_view(kModelPath).size() - 1;  // without the asterisk
  const auto asked = percent_decoded(std::string_view(request.path).substr(above));
  const auto* const service = models.find(asked);
  if (service != nullptr) return json_response(as_text(model_json(service->model(), created)));
  return error_response(model_not_found(asked, model_names(models.services())), ErrorForm::kOpenAi);
}

}  // namespace

std::vector<Route> openai_routes(const ApiContext& context) {
  const int64_t created = seconds_since_1970();
  const ModelDirectory& models = *context.models;
  return {
      inference_route(context, kEmbeddingsPath, ErrorForm::kOpenAi, post_embeddings),
      inference_route(context, kBareEmbeddingsPath, ErrorForm::kOpenAi, post_embeddings),
      guarded_get(context, kModelsPath,
                  [&models, created](const HttpRequest&) { return get_models(models, created); }),
      guarded_get(context, kModelPath,
                  [&models, created](const HttpRequest& request) {
                    return get_model(models, created, request);
                  }),
  };
}

}  // namespace espalier::server
