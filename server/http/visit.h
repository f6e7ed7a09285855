// One request, from its head to its answer.
//
// Thread contract: one thread at a time; it goes with its connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/http/body_budget.h"
#include "server/http/body_receiver.h"
#include "server/http/connection.h"
#include "server/http/http_server.h"
#include "server/http/request_head.h"

namespace espalier::server {

/// Never null once a server serves; replaced as a whole.
using RouteTable = std::shared_ptr<const std::vector<Route>>;

struct Visit final : PendingRequest {
  /// The answer counts in `answer_budget`, and what its client does not read of it, once no thread
  /// waits for that any more, in `send_budget`.
  Visit(Connection& connection_in, RequestHead head_in, size_t body_bytes_max_in,
        const HttpServerOptions& options, BodyBudget& body_budget, BodyBudget& answer_budget,
        BodyBudget& send_budget_in)
      : PendingRequest(head_in, body_bytes_max_in,
                       std::chrono::seconds(options.receive_seconds_max), body_budget),
        connection(connection_in),
        head(std::move(head_in)),
        body_bytes_max(body_bytes_max_in),
        answer_share(answer_budget),
        send_budget(send_budget_in),
        stall_max(options.receive_seconds_max) {}

  /// Whether its body is read at all. A GET's is not: the connection ends with the answer.
  bool reads_body() const { return !answered && head.method == "POST"; }

  Connection& connection;  // which owns this while the body comes
  RequestHead head;
  const size_t body_bytes_max;  // after decoding
  BodyBudget::Share answer_share;
  BodyBudget& send_budget;
  std::chrono::seconds stall_max;
  RouteTable routes;             // as they were when its head came
  const Route* route = nullptr;  // of them
  HttpRequest request;           // for `route`, its body last
  HttpResponse answer;           // also before the body is read, if `answered`
  bool answered = false;
  bool head_was_sound = true;
  size_t response_bytes = 0;  // of the answer's body, once that is being written
  bool send_failed = false;
  bool close_after = false;
};

}  // namespace espalier::server
