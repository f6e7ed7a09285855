#include "server/service/model_directory.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace espalier::server {
namespace {

using Services = std::vector<const InferenceService*>;

/// Of a name that a client sent, in messages.
constexpr size_t kQuotedBytesMax = 128;

bool can(const ServedModel& model, ModelJob job) {
  switch (job) {
    case ModelJob::kEmbed:
      return model.can_embed();
    case ModelJob::kRerank:
      return model.can_rerank();
    case ModelJob::kTokenize:
      return true;
  }
  return false;
}

/// Who tokenizes wants to see what the routes that embed would.
bool is_made_for(const ServedModel& model, ModelJob job) {
  const ModelPurpose other =
      job == ModelJob::kRerank ? ModelPurpose::kEmbedding : ModelPurpose::kReranking;
  return can(model, job) && model.purpose != other;
}

template <typename Condition>
Services those(const Services& services, const Condition& condition) {
  Services chosen;
  std::ranges::copy_if(services, std::back_inserter(chosen),
                       [&](const auto* service) { return condition(service->model()); });
  return chosen;
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }

bool has_other_name(const ServedModel& model, std::string_view name) {
  return std::ranges::find(model.other_names, name) != model.other_names.end();
}

bool has_last_part(const ServedModel& model, std::string_view part) {
  return last_part(model.name) == part ||
         std::ranges::any_of(model.other_names,
                             [&](const auto& other) { return last_part(other) == part; });
}

std::string in_quotes(std::string_view asked) {
  return "`" +
         std::string(asked.substr(
             0, text::character_boundary(asked, std::min(asked.size(), kQuotedBytesMax)))) +
         (asked.size() > kQuotedBytesMax ? "…`" : "`");
}

const char* verb(ModelJob job) { return job == ModelJob::kRerank ? "rerank" : "embed"; }

/// `subject` "the model `a`" or "no model here".
ApiError cannot(ModelJob job, std::string message) {
  return {ErrorKind::kInvalidRequest,
          std::move(message),
          "model",
          job == ModelJob::kRerank ? "model_cannot_rerank" : "model_cannot_embed",
          {}};
}

ApiError named_model_cannot(const ServedModel& model, ModelJob job, const Services& able) {
  const std::string& why = job == ModelJob::kRerank ? model.cannot_rerank : model.cannot_embed;
  const std::string end = able.empty() ? ", nor can another model here"
                                       : "; send as `model` one that can: " + model_names(able);
  return cannot(job,
                "the model " + in_quotes(model.name) + " cannot " + verb(job) + ": " + why + end);
}

ApiError several_could(std::string_view asked, const Services& able) {
  if (!asked.empty()) return model_not_found(asked, model_names(able));
  ApiError error = model_not_found(asked, {});
  error.message =
      "this server has several models for this; send as `model` one of " + model_names(able);
  return error;
}

}  // namespace

std::string model_names(const Services& services) {
  std::string names;
  for (size_t i = 0; i < services.size(); ++i) {
    if (i > 0) names += i + 1 == services.size() ? " and " : ", ";
    names += "`" + services[i]->model().name + "`";
  }
  return names;
}

ApiError model_not_found(std::string_view asked, std::string_view names) {
  return {ErrorKind::kModelNotFound,
          "there is no model " + in_quotes(asked) + " here; this server has " + std::string(names),
          "model",
          "model_not_found",
          {}};
}

ModelDirectory::ModelDirectory(std::vector<const InferenceService*> services)
    : services_(std::move(services)) {
  if (services_.empty()) throw std::runtime_error("a server without a model");
  for (const auto* const service : services_) {
    const std::string& name = service->model().name;
    if (those(services_, [&](const auto& model) { return model.name == name; }).size() > 1) {
      throw std::runtime_error("two models are called " + name +
                               "; name one of them otherwise: --model NAME=…");
    }
  }
}

const InferenceService* ModelDirectory::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  const auto exact = those(services_, [&](const ServedModel& model) { return model.name == name; });
  if (!exact.empty()) return exact.front();
  const auto other =
      those(services_, [&](const ServedModel& model) { return has_other_name(model, name); });
  if (other.size() == 1) return other.front();
  const auto part = last_part(name);
  if (part.empty()) return nullptr;
  const auto alike =
      those(services_, [&](const ServedModel& model) { return has_last_part(model, part); });
  return alike.size() == 1 ? alike.front() : nullptr;
}

Result<const InferenceService*> ModelDirectory::choose(std::string_view asked, ModelJob job) const {
  if (!has_several()) return services_.front();
  const auto able = those(services_, [&](const ServedModel& model) { return can(model, job); });
  if (const auto* const named = find(asked)) {
    if (can(named->model(), job)) return named;
    return tl::unexpected(named_model_cannot(named->model(), job, able));
  }
  if (able.empty()) {
    return tl::unexpected(
        cannot(job, std::string("no model here can ") + verb(job) + ": " + model_names(services_)));
  }
  if (able.size() == 1) return able.front();
  const auto made = those(able, [&](const ServedModel& model) { return is_made_for(model, job); });
  if (made.size() == 1) return made.front();
  return tl::unexpected(several_could(asked, able));
}

}  // namespace espalier::server
