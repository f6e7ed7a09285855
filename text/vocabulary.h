// The vocabulary of a tokenizer: its entries, by content.
//
// Thread contract: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace espalier::text {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// Contents are written in the byte-level alphabet (see byte_level.h), or as text.
using Vocabulary = std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>>;

}  // namespace espalier::text
