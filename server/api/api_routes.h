// The API's routes: JSON → typed request → InferenceService → JSON.
#pragma once

#include <functional>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/access/api_keys.h"
#include "server/debug/batch_recorder.h"
#include "server/http/http_server.h"
#include "server/observe/metrics.h"
#include "server/service/inference_service.h"

namespace espalier::server {

/// What the routes need; all must outlive them.
struct ApiContext {
  const InferenceService* service = nullptr;
  const scheduler::Scheduler* scheduler = nullptr;
  Metrics* metrics = nullptr;
  const ApiKeys* api_keys = nullptr;        // null: everyone is served, told apart by address
  const BatchRecorder* recorder = nullptr;  // null: there are no debug endpoints
  std::function<bool()> ready;              // false while draining: GET /health answers 503
};

/// POST /v1/embeddings, POST /v1/rerank, GET /health, GET /v1/models, GET /metrics,
/// and, with a recorder, GET /debug/timeline, /debug/trie and /debug/trie.svg.
std::vector<Route> api_routes(const ApiContext& context);

}  // namespace espalier::server
