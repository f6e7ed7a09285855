// The W3C trace context that a request may carry (https://www.w3.org/TR/trace-context/), so that
// its line in the log is found from its trace.
//
// Thread contract: function without state.
#pragma once

#include <optional>
#include <string_view>

namespace espalier::server {

struct TraceContext {
  std::string_view trace_id;  // 32 hexadecimal digits in lower case, not all zero
  std::string_view span_id;   // 16 of the caller's span, likewise
};

/// The value of a `traceparent` header field, VERSION-TRACE-SPAN-FLAGS; nullopt if it is malformed,
/// as the specification says: then the request is one without a trace. What later versions may
/// add behind the flags is ignored. The result points into `value`.
std::optional<TraceContext> parse_traceparent(std::string_view value);

}  // namespace espalier::server
