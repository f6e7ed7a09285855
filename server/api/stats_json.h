// GET /stats: a few figures since the start, for pages that show what goes on.
//
// Thread contract: functions without state.
#pragma once

#include <string>

#include "server/api/api_context.h"

namespace espalier::server {

/// {"model","uptime_seconds","requests_total","tokens_total","computed_rows_total","rows_saved_total",
///  "queue":{"inputs","tokens"},"debug_endpoints","keys_required","prompts":[…],"models":[…]}:
/// figures of all models, `model` and `prompts` of the first, and in `models` of each its own.
std::string stats_json(const ApiContext& context);

}  // namespace espalier::server
