#include "models/gguf_keys.h"

#include <algorithm>

namespace espalier::models {
namespace {

std::string range_text(size_t least, size_t max) {
  return "must be from " + std::to_string(least) + " to " + std::to_string(max);
}

/// 0, false and "" mean that something is not there.
bool is_off(const engine::GgufMetadata& metadata, std::string_view key) {
  const engine::GgufValue& value = metadata.at(key);
  return !value.array_elements &&
         std::ranges::all_of(value.bytes, [](char byte) { return byte == 0; });
}

}  // namespace

const std::string& GgufKeys::full(std::string_view key) {
  return *asked_.insert(prefix_ + std::string(key)).first;
}

void GgufKeys::fail(std::string_view key, const std::string& reason) {
  metadata_.fail(full(key), reason);
}

size_t GgufKeys::size(std::string_view key, size_t max, std::optional<size_t> fallback) {
  std::optional<size_t> found = metadata_.unsigned_integer(full(key));
  if (!found) found = fallback;
  if (!found) fail(key, "is missing");
  if (*found < 1 || *found > max) fail(key, range_text(1, max));
  return *found;
}

size_t GgufKeys::count(std::string_view key, size_t max) {
  const size_t found = metadata_.unsigned_integer(full(key)).value_or(0);
  if (found > max) fail(key, range_text(0, max));
  return found;
}

double GgufKeys::positive(std::string_view key, double max, double fallback) {
  const double found = metadata_.number(full(key)).value_or(fallback);
  if (!(found > 0 && found <= max)) {
    fail(key, "must be above 0 and at most " + std::to_string(max));
  }
  return found;
}

bool GgufKeys::boolean(std::string_view key, bool fallback) {
  return metadata_.boolean(full(key)).value_or(fallback);
}

std::string GgufKeys::text(std::string_view key, std::string_view fallback) {
  return std::string(metadata_.text(full(key)).value_or(fallback));
}

void GgufKeys::refuse_others() const {
  for (const std::string_view key : metadata_.keys()) {
    if (!key.starts_with(prefix_) || asked_.contains(key) || is_off(metadata_, key)) continue;
    metadata_.fail(key, "is not supported, and could change results");
  }
}

}  // namespace espalier::models
