// A tokenizer.json of 256 bytes and little else, for tests to change: entry i is byte i.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier::text {

/// Qwen's Split without prefix space, NFC, no merges, no added tokens, no post-processor.
std::string small_tokenizer_json();

/// The small tokenizer with `value` (JSON) at each `pointer` (RFC 6901), for instance
/// {"/model/merges", R"(["a b"])"}; the value "remove" removes the key.
struct Change {
  std::string pointer, value;
};
std::string changed_tokenizer_json(const std::vector<Change>& changes);

Tokenizer small_tokenizer(const std::vector<Change>& changes = {});

/// The bytes of `text` as ids, which is what the small tokenizer gives for normalized text.
std::vector<uint32_t> byte_ids(std::string_view text);

/// The mini model's tokenizer, loaded once.
const Tokenizer& mini_tokenizer();

}  // namespace espalier::text
