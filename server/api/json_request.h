// The body of a request as JSON, read with bounded depth and memory, and its fields as types.
//
// Only members with names that the caller asks for are kept, at any depth: whatever else a client
// sends is checked for syntax and ignored. A member that occurs twice counts as its last
// occurrence.
//
// Thread contract: functions without state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/api_error.h"

namespace espalier::server {

/// Deeper nesting is refused, also inside members that are ignored.
inline constexpr size_t kJsonDepthMax = 32;
/// Values that are kept of one body: 2 048 inputs of 1 024 token ids each.
inline constexpr size_t kJsonValuesMax = size_t{1} << 21U;

/// All of `lists`, for parse_json_object().
template <size_t... kCounts>
constexpr auto joined_members(const std::array<std::string_view, kCounts>&... lists) {
  std::array<std::string_view, (kCounts + ...)> all{};
  auto end = all.begin();
  ((end = std::ranges::copy(lists, end).out), ...);
  return all;
}

/// Parses `body`, which must be one JSON object. Errors (kInvalidRequest) say where and why.
Result<nlohmann::json> parse_json_object(std::string_view body,
                                         std::span<const std::string_view> kept_members);

/// An error about `param`.
ApiError invalid_param(std::string param, std::string message);

/// What `value` is, for messages: "null", "a boolean", "a string", "-3", …
std::string describe(const nlohmann::json& value);

/// A whole number in [0, max]; numbers such as 256.0 count as whole. nullopt for everything else.
std::optional<uint64_t> whole_number(const nlohmann::json& value, uint64_t max);

/// Whether `object` has the member `field` with a value: null is none, as clients send for what
/// they leave out.
bool has_value(const nlohmann::json& object, const char* field);

// Optional fields of `object`; absent and null are nullopt, another type is an error.
Result<std::optional<std::string>> optional_string(const nlohmann::json& object, const char* field);
Result<std::optional<bool>> optional_bool(const nlohmann::json& object, const char* field);
/// In [min, 2⁵³], which every client can represent.
Result<std::optional<uint64_t>> optional_whole_number(const nlohmann::json& object,
                                                      const char* field, uint64_t min);

/// That `field` and `other`, two names of the same thing, say different things.
ApiError contradiction(const char* field, const char* other);

/// What several names of the same thing say, each read by `read(object, field)`, one of the above;
/// an error if two that are there differ.
template <typename Read>
auto read_synonyms(const nlohmann::json& object, std::initializer_list<const char*> fields,
                   const Read& read) -> decltype(read(object, *fields.begin())) {
  typename decltype(read(object, *fields.begin()))::value_type agreed;
  const char* first = nullptr;
  for (const char* const field : fields) {
    auto said = read(object, field);
    if (!said) return said;
    if (!*said) continue;
    if (agreed && *agreed != **said) return tl::unexpected(contradiction(field, first));
    agreed = *said;
    if (first == nullptr) first = field;
  }
  return agreed;
}

/// Appends `text` as a JSON string.
void append_json_string(std::string_view text, std::string& out);
/// Appends the shortest number that reads back as the same float; false if it is not finite.
bool append_json_float(float value, std::string& out);

}  // namespace espalier::server
