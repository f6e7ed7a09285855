// A value in a JSON file together with the way to it, so that every refusal names file, key and
// reason.
//
// Thread contract: plain values; the document must outlive them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::text {

class JsonField {
 public:
  /// The whole document read from `file`; both must outlive the field and all that come from it.
  JsonField(const nlohmann::json& document, const std::string& file);

  /// Throws std::runtime_error: "file: key: reason".
  [[noreturn]] void refuse(const std::string& reason) const;

  /// All of these refuse a value of another type. Absent and null are the same.
  JsonField at(std::string_view key) const;
  std::optional<JsonField> find(std::string_view key) const;
  std::vector<JsonField> items() const;
  std::string as_string() const;
  bool as_bool() const;
  std::string as_character() const;  // a string of one
  uint32_t as_token_id() const;

  std::string string_at(std::string_view key) const { return at(key).as_string(); }
  bool bool_or(std::string_view key, bool fallback) const;

  const nlohmann::json& value() const { return *value_; }

 private:
  JsonField(const nlohmann::json& value, const std::string& file, std::string path);
  std::string path_to(std::string_view key) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;
};

/// Ids are below this: every sane vocabulary fits, and sums of ids and counts cannot overflow.
inline constexpr uint32_t kTokenIdMax = (1u << 31) - 1;

/// `text` in quotation marks for a message: shortened, control characters escaped.
std::string in_quotes(std::string_view text);

}  // namespace espalier::text
