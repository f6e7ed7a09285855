// Which web pages of other origins may use the API from a browser (CORS, the Fetch standard).
//
// Thread contract: immutable, any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/header_fields.h"

namespace espalier::server {

class CorsPolicy {
 public:
  /// Nobody's pages, and no header field.
  CorsPolicy() = default;
  /// Pages of `origins`, each "scheme://host[:port]", or "*" for all. Throws std::runtime_error for
  /// what is no origin, and says what one looks like.
  explicit CorsPolicy(std::vector<std::string> origins);

  /// A browser asks whether a page may send what it is about to.
  bool is_preflight(std::string_view method, const HeaderFields& fields) const;

  using Fields = std::vector<std::pair<std::string, std::string>>;
  /// Appends what the answer to a preflight says besides append_answer_fields().
  void append_preflight_fields(const HeaderFields& request, Fields& answer) const;
  /// Appends what every answer says.
  void append_answer_fields(const HeaderFields& request, Fields& answer) const;

 private:
  bool allows(const HeaderFields& fields) const;

  std::vector<std::string> origins_;
  bool any_ = false;
};

}  // namespace espalier::server
