// The head of an HTTP/1.1 request (RFC 9112): request line and header fields, checked strictly.
//
// Heads that two programs could read differently (both Content-Length and Transfer-Encoding, bare
// line feeds, folded lines, …) are refused: behind a proxy they would smuggle requests.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http/header_fields.h"

namespace espalier::server {

/// Request line and header fields together, unless an option says otherwise; longer ones are
/// refused.
inline constexpr size_t kHeadBytesMax = size_t{32} << 10U;

enum class BodyKind : uint8_t { kNone, kLength, kChunked };

struct RequestHead {
  std::string method;  // as sent
  std::string path;    // without query; not percent-decoded
  BodyKind body = BodyKind::kNone;
  uint64_t content_length = 0;   // for kLength; UINT64_MAX for numbers beyond
  std::string content_type;      // lower case, without parameters; empty if absent
  std::string content_encoding;  // lower case; empty if absent or "identity"
  HeaderFields fields;           // all of them
  bool keep_alive = false;       // the client can send another request on the connection
  bool expects_continue = false;
};

enum class HeadState : uint8_t { kIncomplete, kComplete, kBroken };

struct HeadExtent {
  HeadState state = HeadState::kIncomplete;
  size_t bytes = 0;  // for kComplete: up to and with the empty line
};

/// Whether `bytes` starts with a whole head. `scanned` remembers how far earlier calls have looked
/// into the same growing bytes (start with 0). kBroken: it can never become one.
HeadExtent find_head(std::string_view bytes, size_t& scanned, size_t bytes_max = kHeadBytesMax);

/// Parses a whole head. Errors are kInvalidRequest, or kHeaderTooLarge for one of more than
/// `bytes_max`; the connection must be closed after them.
Result<RequestHead> parse_request_head(std::string_view head, size_t bytes_max = kHeadBytesMax);

}  // namespace espalier::server
