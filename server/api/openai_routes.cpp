#include "server/api/openai_routes.h"

#include <chrono>
#include <string>
#include <utility>

#include "server/api/embeddings_json.h"
#include "server/api/inference_call.h"
#include "server/api/json_request.h"
#include "server/api/percent_decoding.h"
#include "server/api/route_paths.h"

namespace espalier::server {
namespace {

Result<std::string> post_embeddings(InferenceCall& call) {
  const auto body = parse_embeddings_body(call.http.body);
  if (!body) return tl::unexpected(body.error());
  const auto answer = call.service.embed(body->request, call.caller, call.report);
  if (!answer) return tl::unexpected(answer.error());
  return render_embeddings(*answer, body->encoding, call.service.model().name, call.report.tokens);
}

/// One entry of OpenAI's list of models.
std::string model_object(const std::string& name, int64_t created) {
  std::string body = R"({"id":)";
  append_json_string(name, body);
  body +=
      R"(,"object":"model","created":)" + std::to_string(created) + R"(,"owned_by":"espalier"})";
  return body;
}

HttpResponse get_model(const std::string& name, const std::string& object,
                       const HttpRequest& request) {
  const auto above = std::string_view(kModelPath).size() - 1;  // without the asterisk
  const auto asked = percent_decoded(std::string_view(request.path).substr(above));
  if (asked == name) return json_response(object);
  ApiError error;
  error.kind = ErrorKind::kModelNotFound;
  error.message = "there is no such model here; this server has `" + name + "`";
  error.param = "model";
  error.code = "model_not_found";
  return error_response(error, ErrorForm::kOpenAi);
}

}  // namespace

std::vector<Route> openai_routes(const ApiContext& context) {
  const std::string& name = context.service->model().name;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto object =
      model_object(name, std::chrono::duration_cast<std::chrono::seconds>(now).count());
  const auto list = R"({"object":"list","data":[)" + object + "]}";
  return {
      inference_route(context, kEmbeddingsPath, ErrorForm::kOpenAi, post_embeddings),
      inference_route(context, kBareEmbeddingsPath, ErrorForm::kOpenAi, post_embeddings),
      guarded_get(context, kModelsPath, [list](const HttpRequest&) { return json_response(list); }),
      guarded_get(
          context, kModelPath,
          [name, object](const HttpRequest& request) { return get_model(name, object, request); }),
  };
}

}  // namespace espalier::server
