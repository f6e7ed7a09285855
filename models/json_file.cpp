#include "models/json_file.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace espalier::models {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxExcerpt = 60;

[[noreturn]] void fail_file(const std::filesystem::path& file, const std::string& reason) {
  throw std::runtime_error(file.string() + ": " + reason);
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    fail_file(file, "no such file; a model folder as Hugging Face publishes it is needed");
  }
  if (!std::filesystem::is_regular_file(file, error)) fail_file(file, "is not a regular file");
  const auto bytes = std::filesystem::file_size(file, error);
  if (error) fail_file(file, "cannot be read: " + error.message());
  if (bytes > kMaxFileBytes) {
    fail_file(file, "has " + std::to_string(bytes) + " bytes, more than the " +
                        std::to_string(kMaxFileBytes) + " that a JSON file may have");
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    fail_file(file, "cannot be read");
  }
  return text;
}

}  // namespace

bool has_file(const std::filesystem::path& folder, std::string_view name) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(folder / name, error));
}

json read_json_file(const std::filesystem::path& file) {
  return parse_json(read_text(file), file.string());
}

json parse_json(const std::string& text, const std::string& where) {
  const auto within_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) {
      throw std::runtime_error(where + ": is nested more than " + std::to_string(kMaxDepth) +
                               " deep");
    }
    return true;
  };
  try {
    return json::parse(text, within_depth);
  } catch (const json::parse_error& error) {
    // Not error.what(): it repeats the offending token, whatever its length.
    throw std::runtime_error(where + ": is not valid JSON (at byte " + std::to_string(error.byte) +
                             ")");
  } catch (const json::exception& error) {
    throw std::runtime_error(where + ": is not usable JSON (error " + std::to_string(error.id) +
                             ")");
  }
}

std::string excerpt(const json& value) {
  if (value.is_structured()) {
    return std::string(value.type_name()) + " of " + std::to_string(value.size());
  }
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMaxExcerpt) text = text.substr(0, kMaxExcerpt) + "…";
  return text;
}

JsonObject::JsonObject(const json& value, std::string where)
    : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) {
    throw std::runtime_error(where_ + ": expected a JSON object, found " + excerpt(value));
  }
}

bool JsonObject::has(std::string_view key) const {
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

bool JsonObject::is_null(std::string_view key) const {
  const auto found = value_->find(key);
  return found != value_->end() && found->is_null();
}

const json& JsonObject::at(std::string_view key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) fail(key, "is missing");
  return *found;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : value_->items()) keys.push_back(key);
  return keys;
}

std::optional<JsonObject> JsonObject::object(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return JsonObject(at(key), where_ + ": " + std::string(key));
}

size_t JsonObject::size(std::string_view key, size_t max) const {
  if (!has(key)) fail(key, "is missing");
  const json& value = at(key);
  const bool in_range =
      value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= max;
  if (!in_range) {
    fail(key, "expected an integer from 1 to " + std::to_string(max) + ", found " + excerpt(value));
  }
  return value.get<size_t>();
}

size_t JsonObject::size(std::string_view key, size_t max, size_t fallback) const {
  return has(key) ? size(key, max) : fallback;
}

size_t JsonObject::count(std::string_view key, size_t max, size_t fallback) const {
  return has(key) && at(key) == 0 ? 0 : size(key, max, fallback);
}

bool JsonObject::boolean(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const json& value = at(key);
  if (!value.is_boolean()) fail(key, "expected true or false, found " + excerpt(value));
  return value.get<bool>();
}

std::optional<double> JsonObject::number(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    fail(key, "expected a finite number, found " + excerpt(value));
  }
  return value.get<double>();
}

std::string JsonObject::text(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  const json& value = at(key);
  if (!value.is_string()) fail(key, "expected a string, found " + excerpt(value));
  return value.get<std::string>();
}

void JsonObject::fail(std::string_view key, std::string_view reason) const {
  throw std::runtime_error(where_ + ": " + std::string(key) + ": " + std::string(reason));
}

}  // namespace espalier::models
