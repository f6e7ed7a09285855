#include "engine/gguf_metadata.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <variant>

#include "engine/in_quotes.h"

namespace espalier::engine {
namespace {

struct TypeFacts {
  const char* name;
  size_t bytes;
};

/// By GgufType.
constexpr std::array<TypeFacts, 13> kTypes = {{{"uint8", 1},
                                               {"int8", 1},
                                               {"uint16", 2},
                                               {"int16", 2},
                                               {"uint32", 4},
                                               {"int32", 4},
                                               {"float32", 4},
                                               {"bool", 1},
                                               {"string", 0},
                                               {"array", 0},
                                               {"uint64", 8},
                                               {"int64", 8},
                                               {"float64", 8}}};

const TypeFacts& facts_of(GgufType type) { return kTypes[static_cast<size_t>(type)]; }

template <typename T>
T read(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));  // may be unaligned
  return value;
}

/// What is neither an integer nor a float stays empty.
using Number = std::variant<std::monostate, uint64_t, int64_t, double>;

Number number_of(GgufType type, std::string_view bytes) {
  switch (type) {
    case GgufType::kUint8:
      return uint64_t{read<uint8_t>(bytes)};
    case GgufType::kInt8:
      return int64_t{read<int8_t>(bytes)};
    case GgufType::kUint16:
      return uint64_t{read<uint16_t>(bytes)};
    case GgufType::kInt16:
      return int64_t{read<int16_t>(bytes)};
    case GgufType::kUint32:
      return uint64_t{read<uint32_t>(bytes)};
    case GgufType::kInt32:
      return int64_t{read<int32_t>(bytes)};
    case GgufType::kUint64:
      return read<uint64_t>(bytes);
    case GgufType::kInt64:
      return read<int64_t>(bytes);
    case GgufType::kFloat32:
      return double{read<float>(bytes)};
    case GgufType::kFloat64:
      return read<double>(bytes);
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return {};
}

std::optional<int32_t> as_int32(const Number& number) {
  if (const auto* value = std::get_if<uint64_t>(&number)) {
    if (*value <= std::numeric_limits<int32_t>::max()) return static_cast<int32_t>(*value);
  } else if (const auto* negative = std::get_if<int64_t>(&number)) {
    const auto narrowed = static_cast<int32_t>(*negative);
    if (narrowed == *negative) return narrowed;
  }
  return std::nullopt;
}

}  // namespace

size_t bytes_of(GgufType type) { return facts_of(type).bytes; }

bool GgufMetadata::add(std::string_view key, const GgufValue& value) {
  return values_.emplace(key, value).second;
}

std::vector<std::string_view> GgufMetadata::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufValue* GgufMetadata::find_array(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value != nullptr && !value->array_elements) fail_type(key, "an array", *value);
  return value;
}

void GgufMetadata::fail(std::string_view key, const std::string& reason) const {
  throw std::runtime_error(file_name_ + ": " + std::string(key) + ": " + reason);
}

void GgufMetadata::fail_type(std::string_view key, const char* expected,
                             const GgufValue& found) const {
  fail(key, std::string("expected ") + expected + ", found " +
                (found.array_elements ? "an array of " : "") + facts_of(found.type).name);
}

std::optional<uint64_t> GgufMetadata::unsigned_integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->array_elements) {
    const Number number = number_of(value->type, value->bytes);
    if (const auto* integer = std::get_if<uint64_t>(&number)) return *integer;
    if (const auto* integer = std::get_if<int64_t>(&number)) {
      if (*integer < 0) fail(key, std::to_string(*integer) + " must not be negative");
      return static_cast<uint64_t>(*integer);
    }
  }
  fail_type(key, "an integer", *value);
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->array_elements) {
    const Number number = number_of(value->type, value->bytes);
    if (const auto* integer = std::get_if<uint64_t>(&number)) return static_cast<double>(*integer);
    if (const auto* integer = std::get_if<int64_t>(&number)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&number)) {
      if (!std::isfinite(*real)) fail(key, "must be a finite number");
      return *real;
    }
  }
  fail_type(key, "a number", *value);
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->array_elements || value->type != GgufType::kBool) fail_type(key, "a bool", *value);
  return value->bytes[0] != 0;
}

std::optional<std::string_view> GgufMetadata::text(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->array_elements || value->type != GgufType::kString) {
    fail_type(key, "a string", *value);
  }
  return value->bytes;
}

std::optional<std::vector<std::string_view>> GgufMetadata::texts(std::string_view key) const {
  const GgufValue* const value = find_array(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kString) fail_type(key, "an array of strings", *value);
  std::vector<std::string_view> out;
  out.reserve(*value->array_elements);
  std::string_view rest = value->bytes;
  for (size_t i = 0; i < *value->array_elements; ++i) {
    const auto length = read<uint64_t>(rest);
    out.push_back(rest.substr(sizeof(length), length));
    rest.remove_prefix(sizeof(length) + length);
  }
  return out;
}

std::optional<std::vector<int32_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* const value = find_array(key);
  if (value == nullptr) return std::nullopt;
  const size_t size = bytes_of(value->type);
  std::vector<int32_t> out;
  out.reserve(*value->array_elements);
  for (size_t i = 0; i < *value->array_elements; ++i) {
    const std::string_view element = size == 0 ? "" : value->bytes.substr(i * size, size);
    const std::optional<int32_t> integer = as_int32(number_of(value->type, element));
    if (!integer) fail(key, "element " + std::to_string(i) + " is not a 32-bit integer");
    out.push_back(*integer);
  }
  return out;
}

std::optional<std::vector<float>> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* const value = find_array(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kFloat32 && value->type != GgufType::kFloat64) {
    fail_type(key, "an array of floats", *value);
  }
  const size_t size = bytes_of(value->type);
  std::vector<float> out;
  out.reserve(*value->array_elements);
  for (size_t i = 0; i < *value->array_elements; ++i) {
    const Number number = number_of(value->type, value->bytes.substr(i * size, size));
    out.push_back(static_cast<float>(std::get<double>(number)));
  }
  return out;
}

}  // namespace espalier::engine
