#include "server/api/stats_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/model_json.h"

namespace espalier::server {

namespace {

using nlohmann::ordered_json;

ordered_json figures(const Totals& totals, const scheduler::QueueDepth& depth) {
  return {{"requests_total", totals.requests},
          {"tokens_total", totals.tokens},
          {"computed_rows_total", totals.computed_rows},
          {"rows_saved_total", totals.rows_saved},
          {"queue", {{"inputs", depth.tickets}, {"tokens", depth.tokens}}}};
}

ordered_json prompt_names(const ServedModel& model) {
  auto names = ordered_json::array();
  for (const auto& [name, text] : model.prompts) names.push_back(name);
  return names;
}

ordered_json of_each_model(const ApiContext& context) {
  const auto depths = context.scheduler->queue_depths();
  auto models = ordered_json::array();
  for (const auto* const service : context.models->services()) {
    const ServedModel& model = service->model();
    ordered_json one = {{"model", model.name},
                        {"can_embed", model.can_embed()},
                        {"can_rerank", model.can_rerank()},
                        {"made_for", name_of(model.purpose)}};
    one.update(
        figures(context.metrics->totals(model.scheduler_index), depths[model.scheduler_index]));
    one["prompts"] = prompt_names(model);
    models.push_back(std::move(one));
  }
  return models;
}

}  // namespace

std::string stats_json(const ApiContext& context) {
  const Totals totals = context.metrics->totals();
  const ServedModel& model = context.models->first().model();
  ordered_json stats = {{"model", model.name}, {"uptime_seconds", totals.uptime_seconds}};
  stats.update(figures(totals, context.scheduler->queue_depth()));
  stats.update({{"debug_endpoints", context.recorder != nullptr},
                {"keys_required", context.api_keys != nullptr},
                {"prompts", prompt_names(model)},
                {"models", of_each_model(context)}});
  return as_text(stats);
}

}  // namespace espalier::server
