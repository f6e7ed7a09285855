#include "server/api/stats_json.h"

#include <nlohmann/json.hpp>

namespace espalier::server {

std::string stats_json(const ApiContext& context) {
  const Totals totals = context.metrics->totals();
  const ServedModel& model = context.service->model();
  const auto depth = context.scheduler->queue_depth();
  nlohmann::ordered_json stats = {
      {"model", model.name},
      {"uptime_seconds", totals.uptime_seconds},
      {"requests_total", totals.requests},
      {"tokens_total", totals.tokens},
      {"computed_rows_total", totals.computed_rows},
      {"rows_saved_total", totals.rows_saved},
      {"queue", {{"inputs", depth.tickets}, {"tokens", depth.tokens}}},
      {"debug_endpoints", context.recorder != nullptr},
      {"keys_required", context.api_keys != nullptr},
      {"prompts", nlohmann::ordered_json::array()},
  };
  for (const auto& [name, text] : model.prompts) stats["prompts"].push_back(name);
  return stats.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace espalier::server
