// What merging starts with: the ids of a word before anything is merged. In byte-level vocabularies
// those of its bytes, in the others (SentencePiece's) those of its characters.
//
// Thread contract: immutable after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/early_characters.h"
#include "text/merge_table.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace espalier::text {

/// The bytes of a word, and where that makes no difference characters of several bytes
/// (early_characters.h).
class ByteSymbols {
 public:
  /// `raw_entries`: the entries of the vocabulary that stand for bytes, as these.
  ByteSymbols(const Vocabulary& vocabulary,
              const std::unordered_map<uint32_t, std::string>& raw_entries,
              const std::vector<Merge>& merges, const MergeTable& table);

  /// Calls put(id, number of bytes) for each symbol of `word` (valid UTF-8).
  template <typename Put>
  void spell(std::string_view word, const Put& put) const {
    for (size_t at = 0; at < word.size();) {
      const auto early = early_characters_.find(word, at);
      if (early.length != 0) {
        put(early.id, early.length);
        at += early.length;
      } else {
        put(byte_ids_[static_cast<unsigned char>(word[at])], size_t{1});
        ++at;
      }
    }
  }

 private:
  std::array<uint32_t, 256> byte_ids_;
  EarlyCharacters early_characters_;
};

/// How characters without an entry are written.
struct UnknownCharacters {
  bool byte_fallback = false;      // as `<0xE4>` `<0xB8>` `<0xAD>`, if all of those are entries …
  std::optional<uint32_t> unk_id;  // … else as this
  bool fuse_unk = false;           // several in a row as one
};

/// Equal to the first half of Hugging Face's `BPE::merge_word` (tokenizers 0.22, models/bpe).
class CharacterSymbols {
 public:
  CharacterSymbols(const Vocabulary& vocabulary, const UnknownCharacters& unknown);

  /// Calls put(id, number of bytes) for each symbol of `word` (valid UTF-8).
  template <typename Put>
  void spell(std::string_view word, const Put& put) const {
    size_t unknown_bytes = 0;  // of what stands for unk_ and has not been put yet
    const auto flush_unknown = [&] {
      if (unknown_bytes != 0) put(*unknown_.unk_id, unknown_bytes);
      unknown_bytes = 0;
    };
    for (size_t at = 0, length; at < word.size(); at += length) {
      const DecodedCharacter character = decode_utf8(word, at);
      length = character.length;
      if (const uint32_t id = id_of(character.code_point); id != kNoId) {
        flush_unknown();
        put(id, length);
      } else if (has_bytes(word.substr(at, length))) {
        // As in the original, what is unknown before it comes behind it.
        for (size_t i = 0; i < length; ++i) {
          put(byte_ids_[static_cast<unsigned char>(word[at + i])], size_t{1});
        }
      } else if (unknown_.unk_id) {
        if (!unknown_.fuse_unk) flush_unknown();
        unknown_bytes += length;
      }
    }
    flush_unknown();
  }

 private:
  static constexpr uint32_t kNoId = UINT32_MAX;

  uint32_t id_of(char32_t code_point) const {
    return code_point < ids_.size() ? ids_[code_point] : kNoId;
  }
  bool has_bytes(std::string_view character) const {
    for (const char byte : character) {
      if (byte_ids_[static_cast<unsigned char>(byte)] == kNoId) return false;
    }
    return true;
  }

  std::vector<uint32_t> ids_;  // by code point, up to the last one that is an entry
  std::array<uint32_t, 256> byte_ids_;
  UnknownCharacters unknown_;
};

/// Whether every character of every text has a symbol.
bool spells_all_characters(const Vocabulary& vocabulary, const UnknownCharacters& unknown);

}  // namespace espalier::text
