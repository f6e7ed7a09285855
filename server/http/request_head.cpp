#include "server/http/request_head.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "server/http/field_text.h"

namespace espalier::server {
namespace {

constexpr size_t kHeaderFieldsMax = 128;
constexpr size_t kTargetBytesMax = 8192;
/// Fields that must not occur twice, besides those that frame the body.
constexpr std::array<std::string_view, 5> kSoleFields{"authorization", "origin", "traceparent",
                                                      "x-request-id", "x-request-timeout-ms"};

ApiError bad_head(std::string message) {
  ApiError error;
  error.kind = ErrorKind::kInvalidRequest;
  error.message = std::move(message);
  error.code = "malformed_http";
  return error;
}

ApiError too_large(std::string message) {
  ApiError error;
  error.kind = ErrorKind::kHeaderTooLarge;
  error.message = std::move(message);
  error.code = "header_too_large";
  return error;
}

/// RFC 9110's token characters.
bool is_token_char(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const bool digit = c >= '0' && c <= '9';
  return letter || digit ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}
bool is_visible(char c) { return c > ' ' && c != '\x7f'; }
/// Bytes above 127 count as text: `char` may be signed.
bool is_field_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

/// Takes the text up to `separator` off `rest`, or all of it.
std::string_view take_until(std::string_view& rest, std::string_view separator) {
  const size_t end = rest.find(separator);
  const auto taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + separator.size());
  return taken;
}

/// "/v1/models" of "/v1/models?x=1" and of "http://host/v1/models"; the target itself otherwise.
std::string path_of(std::string_view target) {
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t authority = target.find("//") + 2;
    const size_t slash = target.find('/', authority);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  return std::string(target.substr(0, target.find_first_of("?#")));
}

/// UINT64_MAX for what does not fit, nullopt for what is not digits.
std::optional<uint64_t> parse_length(std::string_view digits) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (digits.empty()) return std::nullopt;
  uint64_t length = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    length = length > (kMax - digit) / 10 ? kMax : length * 10 + digit;
  }
  return length;
}

/// Parses the lines of one head into a RequestHead.
class HeadParser {
 public:
  std::optional<ApiError> request_line(std::string_view line) {
    const auto method = take_until(line, " ");
    const auto target = take_until(line, " ");
    if (!is_token(method) || target.empty() || !line.starts_with("HTTP/"))
      return bad_head("the request line is not that of an HTTP/1.1 request");
    if (line != "HTTP/1.1" && line != "HTTP/1.0")
      return bad_head("only HTTP/1.1 and HTTP/1.0 are served here");
    if (target.size() > kTargetBytesMax) {
      return bad_head("the request's target is longer than " + std::to_string(kTargetBytesMax) +
                      " bytes");
    }
    if (!std::ranges::all_of(target, is_visible) ||
        (target.front() != '/' && target != "*" && target.find("://") == std::string_view::npos))
      return bad_head("the request's target is not a path");
    head_.method = method;
    head_.path = path_of(target);
    http_1_0_ = line == "HTTP/1.0";
    return std::nullopt;
  }

  std::optional<ApiError> field(std::string_view line) {
    if (++fields_ > kHeaderFieldsMax) {
      return too_large("the request has more than " + std::to_string(kHeaderFieldsMax) +
                       " header fields");
    }
    const size_t colon = line.find(':');
    // A line that starts with a blank (an old way to continue the one before) has no valid name
    // either.
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad_head("header field " + std::to_string(fields_) + " has no valid name");
    const std::string name = lower_case(line.substr(0, colon));
    const auto value = trim(line.substr(colon + 1));
    if (!std::ranges::all_of(value, is_field_char))
      return bad_head("the header field `" + name + "` holds a control character");
    // A proxy might have checked the other one.
    if (std::ranges::find(kSoleFields, name) != kSoleFields.end() && head_.fields.find(name))
      return bad_head("the header field `" + name + "` occurs twice");
    head_.fields.add(name, std::string(value));
    return known_field(name, value);
  }

  Result<RequestHead> finish() && {
    if (has_length_ && has_transfer_encoding_) {
      return tl::unexpected(
          bad_head("a request may have Content-Length or Transfer-Encoding, not both"));
    }
    if (has_transfer_encoding_ && http_1_0_)
      return tl::unexpected(bad_head("Transfer-Encoding needs HTTP/1.1"));
    if (!http_1_0_ && hosts_ != 1)
      return tl::unexpected(bad_head("an HTTP/1.1 request needs exactly one Host header field"));
    if (has_transfer_encoding_) head_.body = BodyKind::kChunked;
    if (has_length_ && head_.content_length > 0) head_.body = BodyKind::kLength;
    head_.keep_alive = !wants_close_ && (!http_1_0_ || wants_keep_alive_);
    head_.expects_continue = head_.expects_continue && !http_1_0_;
    return std::move(head_);
  }

 private:
  std::optional<ApiError> known_field(std::string_view name, std::string_view value) {
    if (name == "host") {
      ++hosts_;
    } else if (name == "content-length") {
      return length_field(value);
    } else if (name == "transfer-encoding") {
      if (has_transfer_encoding_ || lower_case(value) != "chunked")
        return bad_head("the only Transfer-Encoding that is read here is `chunked`");
      has_transfer_encoding_ = true;
    } else if (name == "content-type") {
      head_.content_type = lower_case(trim(value.substr(0, value.find(';'))));
    } else if (name == "content-encoding") {
      // Two fields are a list, which the check of its value then refuses.
      if (!head_.content_encoding.empty()) head_.content_encoding += ", ";
      if (const auto encoding = lower_case(value); encoding != "identity")
        head_.content_encoding += encoding;
    } else if (name == "connection") {
      connection_field(value);
    } else if (name == "expect") {
      head_.expects_continue = lower_case(value) == "100-continue";
    }
    return std::nullopt;
  }

  std::optional<ApiError> length_field(std::string_view value) {
    const auto length = parse_length(value);
    if (!length) return bad_head("Content-Length is not a number of bytes");
    if (has_length_) return bad_head("Content-Length occurs twice");
    has_length_ = true;
    head_.content_length = *length;
    return std::nullopt;
  }

  void connection_field(std::string_view value) {
    while (!value.empty()) {
      const auto option = lower_case(trim(take_until(value, ",")));
      wants_close_ = wants_close_ || option == "close";
      wants_keep_alive_ = wants_keep_alive_ || option == "keep-alive";
    }
  }

  RequestHead head_;
  bool http_1_0_ = false;
  bool has_length_ = false;
  bool has_transfer_encoding_ = false;
  bool wants_close_ = false;
  bool wants_keep_alive_ = false;
  size_t hosts_ = 0;
  size_t fields_ = 0;
};

}  // namespace

HeadExtent find_head(std::string_view bytes, size_t& scanned, size_t bytes_max) {
  // Neither a TLS handshake nor other binary protocols ever send a blank line: tell them at once.
  if (!bytes.empty() && !is_token_char(bytes.front())) return {HeadState::kBroken, 0};
  while (true) {
    const size_t newline = bytes.find('\n', scanned);
    if (newline == std::string_view::npos) {
      scanned = bytes.size();
      return {bytes.size() > bytes_max ? HeadState::kBroken : HeadState::kIncomplete, 0};
    }
    scanned = newline + 1;
    if (newline == 0 || bytes[newline - 1] != '\r' || newline >= bytes_max)
      return {HeadState::kBroken, 0};
    if (newline >= 3 && bytes[newline - 2] == '\n') {
      scanned = newline;  // asked again, it is found again
      return {HeadState::kComplete, newline + 1};
    }
  }
}

Result<RequestHead> parse_request_head(std::string_view head, size_t bytes_max) {
  size_t scanned = 0;
  if (find_head(head, scanned, bytes_max).state != HeadState::kComplete) {
    if (head.size() >= bytes_max) {
      return tl::unexpected(too_large(
          "the request line and header fields are longer than " + std::to_string(bytes_max) +
          " bytes; send fewer or shorter ones, or start the server with a larger --max-header-kb"));
    }
    return tl::unexpected(
        bad_head("this is not an HTTP/1.1 request: its lines must end with CR LF (and this port "
                 "speaks no TLS)"));
  }
  head.remove_suffix(2);  // the empty line
  HeadParser parser;
  if (auto error = parser.request_line(take_until(head, "\r\n")))
    return tl::unexpected(std::move(*error));
  while (!head.empty()) {
    if (auto error = parser.field(take_until(head, "\r\n")))
      return tl::unexpected(std::move(*error));
  }
  return std::move(parser).finish();
}

}  // namespace espalier::server
