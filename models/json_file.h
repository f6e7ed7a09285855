// One JSON file of a model folder: read within limits, its members checked as they are used.
//
// The files are hostile: any size, nesting or type may occur. Every complaint is a
// std::runtime_error that names file, key and reason.
//
// Thread contract: plain values; const use from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::models {

/// Whether `folder` lists `name`. A link that leads nowhere counts, so that reading it fails by
/// name rather than passing for a file that the model does not have.
bool has_file(const std::filesystem::path& folder, std::string_view name);

/// Reads and parses `file`: at most 64 MiB, nested at most 64 deep.
nlohmann::json read_json_file(const std::filesystem::path& file);

/// Parses `text`, nested at most 64 deep; `where` starts every message.
nlohmann::json parse_json(const std::string& text, const std::string& where);

/// `value` as JSON for a message: ASCII, cut to a readable length.
std::string excerpt(const nlohmann::json& value);

/// A view of one JSON object. A member that is null counts as absent, as in Hugging Face's configs.
class JsonObject {
 public:
  /// `where` starts every message: the file, and the key that leads to this object within it.
  /// `value` must outlive this view; throws when it is not an object.
  JsonObject(const nlohmann::json& value, std::string where);
  JsonObject(nlohmann::json&& value, std::string where) = delete;

  bool has(std::string_view key) const;
  /// The member is there, and is null.
  bool is_null(std::string_view key) const;
  /// The member itself; the key must be there.
  const nlohmann::json& at(std::string_view key) const;
  /// The names of all members, in order, those that are null too.
  std::vector<std::string> keys() const;
  /// The member as an object, if there is one.
  std::optional<JsonObject> object(std::string_view key) const;

  /// An integer in [1, max].
  size_t size(std::string_view key, size_t max) const;
  size_t size(std::string_view key, size_t max, size_t fallback) const;
  /// The same in [0, max].
  size_t count(std::string_view key, size_t max, size_t fallback) const;
  bool boolean(std::string_view key, bool fallback) const;
  /// A finite number.
  std::optional<double> number(std::string_view key) const;
  std::string text(std::string_view key, std::string_view fallback) const;

  [[noreturn]] void fail(std::string_view key, std::string_view reason) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace espalier::models
