// A request and its answer, as the server tells its observer.
#pragma once

#include <string>
#include <utility>

#include "server/http/http_server.h"

namespace espalier::server {

/// Owns what HttpExchange refers to.
struct TestExchange {
  TestExchange(std::string route_in, int status_in)
      : route(std::move(route_in)), status(status_in) {
    request.method = "POST";
    request.path = route;
    request.id = "id-1";
    request.client_address = "192.0.2.7";
  }

  HttpExchange get() const {
    return {.route = route,
            .request = request,
            .status = status,
            .seconds = seconds,
            .request_bytes = request_bytes,
            .response_bytes = response_bytes,
            .log = log};
  }

  std::string route;
  HttpRequest request;
  int status;
  double seconds = 0;
  size_t request_bytes = 0;
  size_t response_bytes = 0;
  LogFields log;
};

}  // namespace espalier::server
