// The key-value pairs of a GGUF file.
//
// Values stay in the file's map, checked to lie in it, and are decoded when they are asked for. All
// readers give nothing for a key that is not there, and throw std::runtime_error naming file, key
// and reason for one of another type or out of range.
//
// Thread contract: immutable once filled; valid as long as the map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::engine {

/// As the file numbers them.
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

struct GgufValue {
  GgufType type = GgufType::kUint8;      // of an array: of its elements
  std::optional<size_t> array_elements;  // nothing if it is none
  /// The value, or the elements one behind the other; strings of an array with their lengths (u64)
  /// before them.
  std::string_view bytes;
};

class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(std::string file_name) : file_name_(std::move(file_name)) {}

  /// False if the key is there already.
  bool add(std::string_view key, const GgufValue& value);

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  size_t size() const { return values_.size(); }
  /// Sorted.
  std::vector<std::string_view> keys() const;

  /// A value as it is; the key must be there.
  const GgufValue& at(std::string_view key) const { return values_.at(key); }

  /// An integer of any type that is not negative.
  std::optional<uint64_t> unsigned_integer(std::string_view key) const;
  /// A finite number of any type.
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  /// Integers of any type that fit.
  std::optional<std::vector<int32_t>> integers(std::string_view key) const;
  /// Numbers of f32 or f64; they need not be finite.
  std::optional<std::vector<float>> floats(std::string_view key) const;

  [[noreturn]] void fail(std::string_view key, const std::string& reason) const;

 private:
  const GgufValue* find(std::string_view key) const;
  const GgufValue* find_array(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, const char* expected,
                              const GgufValue& found) const;

  std::string file_name_;
  std::map<std::string_view, GgufValue> values_;
};

/// Bytes of a number or a bool; 0 for strings and arrays.
size_t bytes_of(GgufType type);

}  // namespace espalier::engine
