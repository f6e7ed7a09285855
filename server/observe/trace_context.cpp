#include "server/observe/trace_context.h"

#include <algorithm>

namespace espalier::server {
namespace {

constexpr size_t kVersionDigits = 2;
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kFlagDigits = 2;

/// Upper case is malformed.
bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool all_zero(std::string_view digits) {
  return digits.find_first_not_of('0') == std::string_view::npos;
}

/// Takes `count` hexadecimal digits off `rest`.
std::optional<std::string_view> take_hex(std::string_view& rest, size_t count) {
  const auto digits = rest.substr(0, count);
  if (digits.size() != count || !std::ranges::all_of(digits, is_hex_digit)) return std::nullopt;
  rest.remove_prefix(count);
  return digits;
}

bool take_dash(std::string_view& rest) {
  if (!rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view value) {
  std::string_view rest = value;
  const auto version = take_hex(rest, kVersionDigits);
  if (!version || *version == "ff" || !take_dash(rest)) return std::nullopt;
  const auto trace = take_hex(rest, kTraceDigits);
  if (!trace || all_zero(*trace) || !take_dash(rest)) return std::nullopt;
  const auto span = take_hex(rest, kSpanDigits);
  if (!span || all_zero(*span) || !take_dash(rest)) return std::nullopt;
  if (!take_hex(rest, kFlagDigits)) return std::nullopt;
  // Version 00 ends here; a later one may go on behind a dash.
  if (!rest.empty() && (*version == "00" || !take_dash(rest))) return std::nullopt;
  return TraceContext{*trace, *span};
}

}  // namespace espalier::server
