// What the routes need; all must outlive them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "scheduler/scheduler.h"
#include "server/access/api_keys.h"
#include "server/debug/batch_recorder.h"
#include "server/observe/metrics.h"
#include "server/service/model_directory.h"
#include "server/service/request_memory.h"

namespace espalier::server {

/// Limits of the server that clients may ask for.
struct ServerLimits {
  size_t concurrent_requests = 0;
  size_t batch_tokens = 0;
  size_t tokenizer_threads = 0;
};

struct ApiContext {
  const ModelDirectory* models = nullptr;
  const scheduler::Scheduler* scheduler = nullptr;  // null: the models are being loaded
  Metrics* metrics = nullptr;
  RequestMemory* memory = nullptr;          // null: without a bound
  const ApiKeys* api_keys = nullptr;        // null: everyone is served, told apart by address
  const BatchRecorder* recorder = nullptr;  // null: there are no debug endpoints
  ServerLimits limits;
  std::string version;
  std::function<bool()> ready;  // false while draining
};

}  // namespace espalier::server
