// GGUF files in memory, written field by field, for tests of what reads them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf_metadata.h"

namespace espalier::engine {

/// Appends to a string what it is asked to; nothing is checked, so that files may be wrong.
class GgufBytes {
 public:
  GgufBytes(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes_ = "GGUF";
    number(version).number(tensors).number(keys);
  }

  template <typename T>
  GgufBytes& number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  GgufBytes& string(std::string_view text) {
    number<uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  GgufBytes& type(GgufType type) { return number(static_cast<uint32_t>(type)); }

  GgufBytes& key(std::string_view name, GgufType value_type) {
    return string(name).type(value_type);
  }
  GgufBytes& array(std::string_view name, GgufType element_type, uint64_t count) {
    return key(name, GgufType::kArray).type(element_type).number(count);
  }
  /// `dimensions` as the file has them: the fastest first.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dimensions,
                    uint32_t ggml_type, uint64_t offset) {
    string(name).number(static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t dimension : dimensions) number(dimension);
    return number(ggml_type).number(offset);
  }
  GgufBytes& align(size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  GgufBytes& data(size_t count, char fill = 0) {
    bytes_.append(count, fill);
    return *this;
  }

  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace espalier::engine
