// One HTTP request at a time, without redirects and repetitions. Connections are kept for the next
// request to the same origin. Certificates are checked against the system's (or SSL_CERT_FILE and
// SSL_CERT_DIR), unless the caller wants them unchecked.
//
// The other side is hostile until proven otherwise: heads, silence and slowness are bounded.
//
// Thread contract: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hub/environment.h"
#include "hub/url.h"

namespace espalier::hub {

struct HttpRequest {
  std::string method = "GET";  // or HEAD
  Url url;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of several the last one

  /// "" if there is none.
  std::string header(const std::string& lower_case_name) const;
};

/// How long the other side may take.
struct HttpPatience {
  std::chrono::seconds connect{10};  // to accept a connection, for each of its addresses
  std::chrono::seconds silence{20};  // without sending anything
};

enum class Certificates {
  kChecked,
  kUnchecked  // any will do: only for who asks itself, and sends no secret
};

class HttpClient {
 public:
  /// `lookup` finds the proxies; `cancelled` as in FetchEvents.
  HttpClient(Lookup lookup, const HttpPatience& patience, std::function<bool()> cancelled,
             Certificates certificates = Certificates::kChecked);
  ~HttpClient();

  /// Both return whether to go on; an exception from one comes out of send().
  struct Callbacks {
    std::function<bool(const HttpHead&)> head = [](const HttpHead&) { return true; };
    std::function<bool(std::string_view)> body = [](std::string_view) { return true; };
  };
  /// Returns the head once the whole body has been handed over, or a callback wanted no more of it.
  /// Throws NoAnswer if there was none or it broke off, Cancelled.
  HttpHead send(const HttpRequest& request, const Callbacks& callbacks);

 private:
  struct Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace espalier::hub
