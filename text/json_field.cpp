#include "text/json_field.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "text/utf8.h"

namespace espalier::text {

JsonField::JsonField(const nlohmann::json& document, const std::string& file)
    : value_(&document), file_(&file) {}

JsonField::JsonField(const nlohmann::json& value, const std::string& file, std::string path)
    : value_(&value), file_(&file), path_(std::move(path)) {}

void JsonField::refuse(const std::string& reason) const {
  throw std::runtime_error(*file_ + ": " + (path_.empty() ? "" : path_ + ": ") + reason);
}

std::string JsonField::path_to(std::string_view key) const {
  return (path_.empty() ? "" : path_ + ".") + std::string(key);
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!value_->is_object()) refuse("expected an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonField(*found, *file_, path_to(key));
}

JsonField JsonField::at(std::string_view key) const {
  const std::optional<JsonField> found = find(key);
  if (!found) JsonField(*value_, *file_, path_to(key)).refuse("is missing");
  return *found;
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) refuse("expected an array");
  std::vector<JsonField> items;
  for (size_t i = 0; i < value_->size(); ++i) {
    items.push_back(JsonField((*value_)[i], *file_, path_ + "[" + std::to_string(i) + "]"));
  }
  return items;
}

std::string JsonField::as_string() const {
  if (!value_->is_string()) refuse("expected a string");
  return value_->get<std::string>();
}

std::string JsonField::as_character() const {
  const std::string text = as_string();
  if (text.empty() || decode_utf8(text, 0).length != text.size()) refuse("expected one character");
  return text;
}

bool JsonField::as_bool() const {
  if (!value_->is_boolean()) refuse("expected true or false");
  return value_->get<bool>();
}

uint32_t JsonField::as_token_id() const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > kTokenIdMax) {
    refuse("expected a token id, an integer from 0 to " + std::to_string(kTokenIdMax));
  }
  return value_->get<uint32_t>();
}

bool JsonField::bool_or(std::string_view key, bool fallback) const {
  const std::optional<JsonField> found = find(key);
  return found ? found->as_bool() : fallback;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kBytesMax = 60;
  std::string shown(text);
  if (shown.size() > kBytesMax) shown = shown.substr(0, kBytesMax) + "…";
  // dump() escapes control characters; a character that was cut in two becomes U+FFFD.
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace espalier::text
