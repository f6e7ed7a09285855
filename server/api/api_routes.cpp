#include "server/api/api_routes.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <utility>

#include "server/api/embeddings_json.h"
#include "server/api/json_request.h"
#include "server/api/rerank_json.h"
#include "server/api/route_paths.h"
#include "server/debug/timeline_json.h"
#include "server/debug/trie_svg.h"
#include "server/debug/trie_text.h"
#include "server/error_response.h"

namespace espalier::server {
namespace {

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

/// JSON by name, or unnamed. Forms are refused although curl's -d names one: browsers send forms to
/// other sites unasked, and a page must not be able to make its visitors' servers work.
std::optional<ApiError> refuse_media_type(const HttpRequest& request) {
  const std::string& type = request.content_type;
  if (type.empty() || type == "application/json" ||
      (type.starts_with("application/") && type.ends_with("+json"))) {
    return std::nullopt;
  }
  ApiError error;
  error.kind = ErrorKind::kUnsupportedMediaType;
  error.message =
      "the body must be JSON: send the header `Content-Type: application/json` "
      "(curl: -H 'Content-Type: application/json')";
  return error;
}

/// Turns what a handler throws into 500, so that one request never takes the server down.
template <typename Handler>
HttpHandler guarded(const char* path, Handler handler) {
  return [path, handler = std::move(handler)](const HttpRequest& request) {
    ApiError error;
    try {
      return handler(request);
    } catch (const std::bad_alloc&) {
      error.message = "the server has no memory for this request; send fewer inputs at once";
      spdlog::error("{}: out of memory", path);
    } catch (const std::exception& exception) {
      error.message = "the server failed; its log says why";
      spdlog::error("{}: {}", path, exception.what());
    }
    return error_response(error);
  };
}

/// Logs a failure of our own; clients' mistakes are theirs to read.
HttpResponse failed(const ApiContext& context, const char* path, const ApiError& error) {
  if (error.code == kTooLargeCode) context.metrics->on_never_fits();
  if (error.kind == ErrorKind::kInternal) spdlog::error("{}: {}", path, error.message);
  return error_response(error);
}

Result<Identity> identify(const ApiContext& context, const HttpRequest& http) {
  if (context.api_keys != nullptr) {
    const std::string* const sent = http.fields.find("authorization");
    return context.api_keys->identify(sent != nullptr ? *sent : std::string_view());
  }
  return identity_of_address(http.client_address);
}

/// Who asks, and how long they will wait, from the head alone.
Result<Caller> caller_of(const ApiContext& context, const HttpRequest& http) {
  auto identity = identify(context, http);
  if (!identity) return tl::unexpected(std::move(identity.error()));
  Caller caller;
  caller.identity = *identity;
  caller.gone = http.client_gone;
  if (const std::string* const sent = http.fields.find("x-request-timeout-ms")) {
    const auto timeout = parse_request_timeout(*sent);
    if (!timeout) return tl::unexpected(timeout.error());
    caller.timeout = AskedTimeout{*timeout, http.received_at};
  }
  return caller;
}

HttpResponse post_embeddings(const ApiContext& context, const HttpRequest& http) {
  const auto caller = caller_of(context, http);
  if (!caller) return error_response(caller.error());
  if (const auto refused = refuse_media_type(http)) return error_response(*refused);
  const auto request = parse_embedding_request(http.body);
  if (!request) return error_response(request.error());
  StageTimes times;
  const auto answer = context.service->embed(*request, *caller, times);
  if (!answer) return failed(context, kEmbeddingsPath, answer.error());
  context.metrics->on_stages(times);
  auto body = render_embedding_answer(*answer, request->encoding, context.service->model().name);
  return body ? json_response(std::move(*body)) : failed(context, kEmbeddingsPath, body.error());
}

/// "rerank-" and 16 hexadecimal digits, unlike every other id of this process and, most likely, of
/// every other one.
class AnswerIds {
 public:
  std::string next() {
    constexpr char kDigits[] = "0123456789abcdef";
    // The finalizer of SplitMix64 (Steele et al. 2014): a bijection, so counted ids do not collide.
    uint64_t bits = seed_ + 0x9E3779B97F4A7C15U * count_.fetch_add(1, std::memory_order_relaxed);
    bits = (bits ^ bits >> 30U) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ bits >> 27U) * 0x94D049BB133111EBU;
    bits ^= bits >> 31U;
    std::string id = "rerank-";
    for (int shift = 60; shift >= 0; shift -= 4) id += kDigits[bits >> shift & 15U];
    return id;
  }

 private:
  uint64_t seed_ = uint64_t{std::random_device{}()} << 32U | std::random_device{}();
  std::atomic<uint64_t> count_ = 0;
};

HttpResponse post_rerank(const ApiContext& context, AnswerIds& ids, const HttpRequest& http) {
  const auto caller = caller_of(context, http);
  if (!caller) return error_response(caller.error());
  if (const auto refused = refuse_media_type(http)) return error_response(*refused);
  const auto request = parse_rerank_request(http.body);
  if (!request) return error_response(request.error());
  StageTimes times;
  const auto answer = context.service->rerank(*request, *caller, times);
  if (!answer) return failed(context, kRerankPath, answer.error());
  context.metrics->on_stages(times);
  auto body = render_rerank_answer(*answer, *request, ids.next(), context.service->model().name);
  return body ? json_response(std::move(*body)) : failed(context, kRerankPath, body.error());
}

HttpResponse get_health(const ApiContext& context) {
  if (context.ready()) return json_response(R"({"status":"ok"})");
  HttpResponse response = json_response(R"({"status":"draining"})");
  response.status = 503;
  return response;
}

std::string models_body(const ServedModel& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::string body = R"({"object":"list","data":[{"id":)";
  append_json_string(model.name, body);
  body +=
      R"(,"object":"model","created":)" + std::to_string(created) + R"(,"owned_by":"espalier"}]})";
  return body;
}

HttpResponse text_response(const char* content_type, std::string body) {
  HttpResponse response;
  response.content_type = content_type;
  response.body = std::move(body);
  return response;
}

void add_debug_routes(const BatchRecorder& recorder, const HttpAdmission& admission,
                      std::vector<Route>& routes) {
  const auto add = [&](const char* path, auto handler) {
    routes.push_back({"GET", path, guarded(path, std::move(handler)), admission});
  };
  add(kTimelinePath, [&recorder](const HttpRequest&) {
    return json_response(timeline_json(recorder.batches(), recorder.started()));
  });
  add(kTriePath, [&recorder](const HttpRequest&) {
    return text_response("text/plain; charset=utf-8", trie_text(recorder.trie()));
  });
  add(kTrieSvgPath, [&recorder](const HttpRequest&) {
    return text_response("image/svg+xml", trie_svg(recorder.trie()));
  });
}

}  // namespace

std::vector<Route> api_routes(const ApiContext& context) {
  const auto ids = std::make_shared<AnswerIds>();
  // Whoever may not ask, or asks for a nonsensical time, is told so before the body is read.
  const HttpAdmission admission =
      [context](const HttpRequest& request) -> std::optional<HttpResponse> {
    const auto caller = caller_of(context, request);
    if (caller) return std::nullopt;
    return error_response(caller.error());
  };
  const auto post = [&](const char* path, auto handler) {
    return Route{"POST", path, guarded(path, std::move(handler)), admission};
  };
  const auto get = [](const char* path, auto handler) {
    return Route{"GET", path, guarded(path, std::move(handler))};
  };
  const auto get_with_key = [&](const char* path, auto handler) {
    return Route{"GET", path, guarded(path, std::move(handler)), admission};
  };
  std::vector<Route> routes{
      post(kEmbeddingsPath,
           [context](const HttpRequest& request) { return post_embeddings(context, request); }),
      post(kRerankPath,
           [context, ids](const HttpRequest& request) {
             return post_rerank(context, *ids, request);
           }),
      get(kHealthPath, [context](const HttpRequest&) { return get_health(context); }),
      get_with_key(kModelsPath, [body = models_body(context.service->model())](
                                    const HttpRequest&) { return json_response(body); }),
      get(kMetricsPath,
          [context](const HttpRequest&) {
            return text_response("text/plain; version=0.0.4; charset=utf-8",
                                 context.metrics->exposition(context.scheduler->queue_depth()));
          }),
  };
  if (context.recorder != nullptr) add_debug_routes(*context.recorder, admission, routes);
  return routes;
}

}  // namespace espalier::server
