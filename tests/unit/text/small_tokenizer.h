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

/// Like Llama 2's: Prepend and Replace, no pre-tokenizer, byte fallback. Ids 0 to 2 are `<unk>`,
/// `<s>` and `</s>`, which are no added tokens here; 3 + i is byte i, then come printable ASCII
/// characters from kFirstCharacterId on, the mark, and U+4E2D. No merges.
inline constexpr uint32_t kFirstCharacterId = 3 + 256;  // "!"
inline constexpr uint32_t kMarkId = kFirstCharacterId + 94;
inline constexpr uint32_t kChineseId = kMarkId + 1, kSmallSentencePieceSize = kChineseId + 1;
std::string sentencepiece_json(const std::vector<Change>& changes = {});
Tokenizer small_sentencepiece(const std::vector<Change>& changes = {});

/// Its ids for a text of its characters, spaces and U+2581 being marks.
std::vector<uint32_t> character_ids(std::string_view text);

/// The bytes of `text` as ids, which is what the small tokenizer gives for normalized text.
std::vector<uint32_t> byte_ids(std::string_view text);

/// The mini model's tokenizer, loaded once.
const Tokenizer& mini_tokenizer();

}  // namespace espalier::text
