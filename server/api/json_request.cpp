#include "server/api/json_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestExactInteger = uint64_t{1} << 53U;
/// Of the parser's reason: it quotes the last token, which may be megabytes long.
constexpr size_t kReasonBytesMax = 160;

ApiError malformed_json(std::string message) {
  ApiError error;
  error.kind = ErrorKind::kInvalidRequest;
  error.message = std::move(message);
  error.code = "invalid_json";
  return error;
}

/// "line 3, column 7" of byte `offset` (0-based), both counted from 1, columns in bytes.
std::string place_of(std::string_view body, size_t offset) {
  const auto before = body.substr(0, std::min(offset, body.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const auto newline = before.rfind('\n');
  const auto column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// The parser's own words without its error number and position: what follows "parsing value - ".
std::string reason_of(std::string_view what) {
  if (const auto id_end = what.find("] "); id_end != std::string_view::npos)
    what.remove_prefix(id_end + 2);
  if (const auto dash = what.find(" - "); dash != std::string_view::npos && dash < 120)
    what.remove_prefix(dash + 3);
  std::string reason(what.substr(0, kReasonBytesMax));
  if (what.size() > kReasonBytesMax) reason += " …";
  return reason;
}

/// Builds a json value from parser events, dropping members that nobody asked for.
class TreeBuilder final : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(std::string_view body, std::span<const std::string_view> kept_members)
      : body_(body), kept_members_(kept_members) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none

  bool start_object(size_t /*unknown*/) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t /*unknown*/) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (skipped_depth_ > 0) return true;
    skip_next_ = std::ranges::find(kept_members_, name) == kept_members_.end();
    if (!skip_next_) member_ = &(*open_.back())[name];
    return true;
  }

  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    // `position` counts bytes read, so it is one past the offending byte.
    const size_t offset = position > 0 ? position - 1 : 0;
    error_ = body_.empty()
                 ? malformed_json("the body is empty; a JSON object is expected")
                 : malformed_json("the body is not valid JSON at " + place_of(body_, offset) +
                                  ": " + reason_of(error.what()));
    return false;
  }

  Result<json> finish(bool parsed) && {
    if (!parsed) return tl::unexpected(std::move(error_));
    if (!root_.is_object()) {
      return tl::unexpected(
          malformed_json("the body must be a JSON object, not " + describe(root_)));
    }
    return std::move(root_);
  }

 private:
  bool add(json value) {
    if (skipped_depth_ > 0) return true;
    if (std::exchange(skip_next_, false)) return true;
    return place(std::move(value)) != nullptr;
  }

  bool open(json container) {
    if (++depth_ > kJsonDepthMax) {
      error_ = malformed_json("the body is nested deeper than " + std::to_string(kJsonDepthMax) +
                              " levels");
      return false;
    }
    if (skipped_depth_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_depth_;
      return true;
    }
    json* const placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }

  bool close() {
    --depth_;
    if (skipped_depth_ > 0) {
      --skipped_depth_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  /// Where `value` now is; pointers stay valid while it is open, because its parent waits for it.
  json* place(json value) {
    if (++values_ > kJsonValuesMax) {
      error_ = malformed_json("the body holds more than " + std::to_string(kJsonValuesMax) +
                              " values; send several smaller requests");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  std::string_view body_;
  std::span<const std::string_view> kept_members_;
  json root_;
  std::vector<json*> open_;   // the containers that are being built, outermost first
  json* member_ = nullptr;    // of the innermost object: where its next value goes
  bool skip_next_ = false;    // the next value belongs to a member that nobody asked for
  size_t skipped_depth_ = 0;  // open containers inside such a member
  size_t depth_ = 0;          // all open containers
  size_t values_ = 0;
  ApiError error_;
};

/// The member `field` of `object`; null if it is absent or null.
const json* member(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

ApiError wrong_type(const char* field, const char* expected, const json& value) {
  return invalid_param(
      field, "`" + std::string(field) + "` must be " + expected + ", not " + describe(value));
}

}  // namespace

Result<json> parse_json_object(std::string_view body,
                               std::span<const std::string_view> kept_members) {
  // The parser takes one for the end, whatever follows.
  if (const size_t nul = body.find('\0'); nul != std::string_view::npos) {
    return tl::unexpected(malformed_json("the body is not valid JSON at " + place_of(body, nul) +
                                         ": there is a NUL byte"));
  }
  TreeBuilder builder(body, kept_members);
  const bool parsed = json::sax_parse(body, &builder);
  return std::move(builder).finish(parsed);
}

ApiError invalid_param(std::string param, std::string message) {
  ApiError error;
  error.kind = ErrorKind::kInvalidRequest;
  error.param = std::move(param);
  error.message = std::move(message);
  return error;
}

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
    case json::value_t::number_float:
      return value.dump();
    case json::value_t::string:
      return value.get_ref<const std::string&>().empty() ? "an empty string" : "a string";
    case json::value_t::array:
      return value.empty() ? "an empty array" : "an array";
    default:
      return "an object";
  }
}

std::optional<uint64_t> whole_number(const json& value, uint64_t max) {
  if (value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0)) {
    const auto number = value.get<uint64_t>();
    return number <= max ? std::optional(number) : std::nullopt;
  }
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    const auto limit = static_cast<double>(std::min(max, kLargestExactInteger));
    if (number >= 0 && number <= limit && std::trunc(number) == number)
      return static_cast<uint64_t>(number);
  }
  return std::nullopt;
}

bool has_value(const json& object, const char* field) { return member(object, field) != nullptr; }

Result<std::optional<std::string>> optional_string(const json& object, const char* field) {
  const json* const value = member(object, field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return tl::unexpected(wrong_type(field, "a string", *value));
  return value->get<std::string>();
}

Result<std::optional<bool>> optional_bool(const json& object, const char* field) {
  const json* const value = member(object, field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return tl::unexpected(wrong_type(field, "true or false", *value));
  return value->get<bool>();
}

Result<std::optional<uint64_t>> optional_whole_number(const json& object, const char* field,
                                                      uint64_t min) {
  const json* const value = member(object, field);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value, kLargestExactInteger);
  if (!number || *number < min) {
    const auto expected = "a whole number, " + std::to_string(min) + " or more";
    return tl::unexpected(wrong_type(field, expected.c_str(), *value));
  }
  return *number;
}

ApiError contradiction(const char* field, const char* other) {
  return invalid_param(field, "`" + std::string(field) + "` and `" + other +
                                  "` say different things; send one of them");
}

void append_json_string(std::string_view text, std::string& out) {
  out += json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool append_json_float(float value, std::string& out) {
  if (!std::isfinite(value)) return false;
  std::array<char, 32> digits{};  // the longest is "-1.17549435e-38"
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
  return true;
}

}  // namespace espalier::server
