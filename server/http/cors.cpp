#include "server/http/cors.h"

#include <algorithm>
#include <stdexcept>

namespace espalier::server {
namespace {

constexpr char kMethods[] = "GET, POST";
/// All: SDKs send fields of their own (X-Stainless-Lang, X-Fern-Runtime, …). The star does not
/// stand for Authorization, and old browsers do not know it.
constexpr char kRequestFields[] =
    "Authorization, Content-Type, X-Request-Id, X-Request-Timeout-Ms, X-Espalier-Affinity, "
    "traceparent, *";
/// Fields that a page may read of an answer, besides those that every page may.
constexpr char kExposedFields[] =
    "x-request-id, retry-after, x-espalier-tokens, x-espalier-new-rows, x-espalier-model, "
    "x-compute-type, "
    "x-compute-time, x-compute-characters, x-compute-tokens, x-total-time, x-tokenization-time, "
    "x-queue-time, x-inference-time";
/// Seconds that a browser may remember the answer to a preflight; Chromium remembers no longer.
constexpr char kMaxAge[] = "7200";

bool is_origin(std::string_view text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return false;
  const auto is_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  // Upper case never equals what a browser sends.
  const auto is_host = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' ||
           c == ':' || c == '[' || c == ']';
  };
  const auto host = text.substr(scheme_end + 3);
  return std::ranges::all_of(text.substr(0, scheme_end), is_scheme) && !host.empty() &&
         std::ranges::all_of(host, is_host);
}

}  // namespace

CorsPolicy::CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {
  for (const std::string& origin : origins_) {
    any_ = any_ || origin == "*";
    if (origin != "*" && !is_origin(origin)) {
      throw std::runtime_error("--cors-origin: `" + origin +
                               "` is no origin; one looks like https://app.example.com or "
                               "http://localhost:3000, in lower case and without a path; * stands "
                               "for all");
    }
  }
}

bool CorsPolicy::allows(const HeaderFields& fields) const {
  const std::string* const origin = fields.find("origin");
  return origin != nullptr && (any_ || std::ranges::find(origins_, *origin) != origins_.end());
}

bool CorsPolicy::is_preflight(std::string_view method, const HeaderFields& fields) const {
  return method == "OPTIONS" && fields.find("access-control-request-method") != nullptr &&
         allows(fields);
}

void CorsPolicy::append_preflight_fields(const HeaderFields& request, Fields& answer) const {
  if (!allows(request)) return;
  answer.emplace_back("Access-Control-Allow-Methods", kMethods);
  answer.emplace_back("Access-Control-Allow-Headers", kRequestFields);
  answer.emplace_back("Access-Control-Max-Age", kMaxAge);
}

void CorsPolicy::append_answer_fields(const HeaderFields& request, Fields& answer) const {
  if (origins_.empty()) return;
  // A cache must not give one origin's answer to another one.
  if (!any_) answer.emplace_back("Vary", "Origin");
  if (!allows(request)) return;
  answer.emplace_back("Access-Control-Allow-Origin", any_ ? "*" : *request.find("origin"));
  answer.emplace_back("Access-Control-Expose-Headers", kExposedFields);
}

}  // namespace espalier::server
