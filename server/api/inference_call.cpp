#include "server/api/inference_call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <utility>

#include "server/api/parsing_cost.h"
#include "server/error_response.h"

namespace espalier::server {
namespace {

using Clock = std::chrono::steady_clock;

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
HttpHandler guarded(const char* path, ErrorForm form, Handler handler) {
  return [path, form, handler = std::move(handler)](const HttpRequest& request) {
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
    return error_response(error, form);
  };
}

Result<Identity> identify(const ApiContext& context, const HttpRequest& http) {
  if (context.api_keys == nullptr) return identity_of_address(http.client_address);
  const std::string* const sent = http.fields.find("authorization");
  return context.api_keys->identify(sent != nullptr ? *sent : std::string_view());
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

HttpAdmission admission(const ApiContext& context, ErrorForm form) {
  return [context, form](const HttpRequest& request) -> std::optional<HttpResponse> {
    const auto caller = caller_of(context, request);
    if (caller) return std::nullopt;
    return error_response(caller.error(), form);
  };
}

std::string whole_milliseconds(double seconds) {
  return std::to_string(std::llround(1e3 * seconds));
}

/// What of a model's name a header field can hold.
std::string as_field_value(std::string name) {
  const auto visible = [](char c) { return c > ' ' && c < '\x7f'; };
  std::ranges::replace_if(name, std::not_fn(visible), '?');
  return name;
}

/// text-embeddings-inference's timing headers and ours.
void add_headers(const InferenceCall& call, HttpResponse& response) {
  const RequestReport& report = call.report;
  const std::chrono::duration<double> total = Clock::now() - call.http.received_at;
  const double computing = report.tokenize_seconds + report.queue_seconds + report.compute_seconds;
  response.headers.insert(response.headers.end(),
                          {{"x-compute-type", "cpu"},
                           {"x-compute-time", whole_milliseconds(computing)},
                           {"x-compute-characters", std::to_string(report.characters)},
                           {"x-compute-tokens", std::to_string(report.tokens)},
                           {"x-total-time", whole_milliseconds(total.count())},
                           {"x-tokenization-time", whole_milliseconds(report.tokenize_seconds)},
                           {"x-queue-time", whole_milliseconds(report.queue_seconds)},
                           {"x-inference-time", whole_milliseconds(report.compute_seconds)},
                           {"x-espalier-tokens", std::to_string(report.tokens)},
                           {"x-espalier-new-rows", std::to_string(report.new_rows)}});
  if (call.chosen != nullptr)
    response.headers.emplace_back("x-espalier-model", as_field_value(call.model().name));
}

void add_log_fields(const InferenceCall& call, HttpResponse& response) {
  const RequestReport& report = call.report;
  if (!call.caller.identity.name.empty())
    response.log.emplace_back("key", call.caller.identity.name);
  if (call.chosen != nullptr) response.log.emplace_back("model", call.model().name);
  response.log.insert(response.log.end(), {{"inputs", uint64_t{report.inputs}},
                                           {"tokens", uint64_t{report.tokens}},
                                           {"rows", uint64_t{report.new_rows}},
                                           {"tokenize_ms", 1e3 * report.tokenize_seconds},
                                           {"queue_ms", 1e3 * report.queue_seconds},
                                           {"compute_ms", 1e3 * report.compute_seconds}});
}

/// Logs a failure of our own; clients' mistakes are theirs to read.
HttpResponse failed(const ApiContext& context, const char* path, const ApiError& error,
                    ErrorForm form) {
  if (error.kind == ErrorKind::kInternal) spdlog::error("{}: {}", path, error.message);
  HttpResponse response = error_response(error, form);
  // Those of status 413 are counted by it.
  if (error.code == kTooLargeCode && response.status != 413) context.metrics->on_never_fits();
  return response;
}

/// `work(service)` by the model that `request` asks for.
template <typename Request, typename Work>
auto by_chosen_model(InferenceCall& call, const Request& request, ModelJob job, const Work& work)
    -> decltype(work(*call.chosen)) {
  const auto chosen = call.models.choose(request.model, job);
  if (!chosen) return tl::unexpected(chosen.error());
  call.chosen = *chosen;
  call.reading.shrink_to(call.request_bytes);
  return work(*call.chosen);
}

/// Why nobody waits for the body to be read any more. The server's own time for a request is longer
/// than anybody waits for this, and is asked for once the model is known.
std::optional<ApiError> no_longer_wanted(const Caller& caller) {
  if (caller.timeout && Clock::now() >= caller.timeout->since + caller.timeout->timeout)
    return RequestDeadline(std::chrono::seconds(0), caller.timeout, Clock::now()).error();
  if (!caller.gone || !caller.gone()) return std::nullopt;
  ApiError error;
  error.kind = ErrorKind::kClientGone;
  error.message = "the client closed the connection while its request waited for memory";
  return error;
}

/// Memory for parsing the body, and later for the answer, so that no request takes more than there
/// is left for it. An error: there is too little.
std::optional<ApiError> reserve_memory(const ApiContext& context, InferenceCall& call) {
  RequestMemory& memory = *context.memory;
  const ParsingCost cost = parsing_cost(call.http.body, context.limits.tokenizer_threads);
  call.request_bytes = cost.request;
  call.caller.reserve = [&memory, &call, inputs = cost.inputs](size_t bytes,
                                                               const Interruption& interruption) {
    // How many tokens there are is known by now.
    call.reading.shrink_to(inputs + kIdBytesAtMost * call.report.tokens);
    auto share = memory.answers.take(call.caller.identity.client, bytes, interruption);
    if (!share) return std::optional(std::move(share.error()));
    call.answer = std::move(*share);
    return std::optional<ApiError>();
  };
  auto share =
      memory.reading.take(call.caller.identity.client, std::max(cost.parsing, cost.request),
                          [&] { return no_longer_wanted(call.caller); });
  if (!share) return std::move(share.error());
  call.reading = std::move(*share);
  call.reading_bytes = call.reading.bytes();
  return std::nullopt;
}

/// What `call` has reserved for its answer, until that has been written; the rest is given back.
std::shared_ptr<const void> answer_memory(RequestMemory& memory, InferenceCall& call) {
  call.reading = {};
  memory.freed(call.reading_bytes);
  return {new MemoryPool::Share(std::move(call.answer)), [&memory](MemoryPool::Share* share) {
            const size_t bytes = share->bytes();
            delete share;
            memory.freed(bytes);
          }};
}

HttpResponse handle(const ApiContext& context, const char* path, ErrorForm form,
                    const InferenceHandler& handler, const HttpRequest& http) {
  auto caller = caller_of(context, http);
  if (!caller) return error_response(caller.error(), form);
  if (const auto refused = refuse_media_type(http)) return error_response(*refused, form);
  InferenceCall call{http, *context.models, std::move(*caller), {}, form};
  if (context.memory != nullptr) {
    if (const auto error = reserve_memory(context, call))
      return failed(context, path, *error, form);
  }
  auto body = handler(call);
  HttpResponse response =
      body ? json_response(std::move(*body)) : failed(context, path, body.error(), call.error_form);
  if (body && call.report.computed) {
    context.metrics->on_stages(call.model().scheduler_index, call.report);
    context.metrics->on_usage(call.caller.identity.name, call.report.tokens, call.report.new_rows);
  }
  add_headers(call, response);
  add_log_fields(call, response);
  if (context.memory != nullptr) response.memory = answer_memory(*context.memory, call);
  return response;
}

}  // namespace

Result<EmbeddingAnswer> InferenceCall::embed(const EmbeddingRequest& request) {
  return by_chosen_model(*this, request, ModelJob::kEmbed, [&](const InferenceService& service) {
    return service.embed(request, caller, report);
  });
}

Result<TokenEmbeddingAnswer> InferenceCall::embed_tokens(const EmbeddingRequest& request) {
  return by_chosen_model(*this, request, ModelJob::kEmbed, [&](const InferenceService& service) {
    return service.embed_tokens(request, caller, report);
  });
}

Result<ScoreAnswer> InferenceCall::score(const ScoreRequest& request) {
  return by_chosen_model(*this, request, ModelJob::kRerank, [&](const InferenceService& service) {
    return service.score(request, caller, report);
  });
}

Result<std::vector<TokenizedText>> InferenceCall::tokenize(const TokenizeRequest& request) {
  return by_chosen_model(*this, request, ModelJob::kTokenize, [&](const InferenceService& service) {
    return service.tokenize(request, caller, report);
  });
}

Result<std::vector<std::string>> InferenceCall::decode(const DecodeRequest& request) {
  return by_chosen_model(*this, request, ModelJob::kTokenize, [&](const InferenceService& service) {
    return service.decode(request, caller, report);
  });
}

Route inference_route(const ApiContext& context, const char* path, ErrorForm error_form,
                      InferenceHandler handler) {
  auto handle_request = [context, path, error_form,
                         handler = std::move(handler)](const HttpRequest& request) {
    return handle(context, path, error_form, handler, request);
  };
  return {"POST", path, guarded(path, error_form, std::move(handle_request)),
          admission(context, error_form),
          [error_form](const ApiError& error) { return error_response(error, error_form); }};
}

Route guarded_get(const ApiContext& context, const char* path, HttpHandler handler) {
  return {"GET", path, guarded(path, ErrorForm::kOpenAi, std::move(handler)),
          admission(context, ErrorForm::kOpenAi)};
}

Route admin_get(const ApiContext& context, const char* path, HttpHandler handler) {
  Route route = guarded_get(context, path, std::move(handler));
  route.admission = [context](const HttpRequest& request) -> std::optional<HttpResponse> {
    const auto identity = identify(context, request);
    if (!identity) return error_response(identity.error());
    if (context.api_keys == nullptr || identity->admin) return std::nullopt;
    ApiError error;
    error.kind = ErrorKind::kForbidden;
    error.message =
        "this needs an admin's key: one of --admin-key, or of a line that ends in `admin`";
    error.code = "admin_key_required";
    return error_response(error);
  };
  return route;
}

Route open_get(const char* path, HttpHandler handler) {
  return {"GET", path, guarded(path, ErrorForm::kOpenAi, std::move(handler))};
}

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse text_response(const char* content_type, std::string body) {
  HttpResponse response;
  response.content_type = content_type;
  response.body = std::move(body);
  return response;
}

}  // namespace espalier::server
