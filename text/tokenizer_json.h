// Reading and validating a `tokenizer.json`: what it asks for, or a refusal that names file, key
// and reason.
//
// What would change ids and is not supported is refused. Two keys that would are read over on
// purpose: `truncation` and `padding` are settings that the library saves with the file and that
// `transformers` overrides on every call; Espalier cuts texts by its own limits and pads nothing.
//
// Thread contract: pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/unicode_normalizer.h"

namespace espalier::text {

/// Ids that the post-processor's template puts around a text.
struct PostProcessor {
  std::vector<uint32_t> prefix, suffix;
};

struct TokenizerSpec {
  std::vector<AddedToken>
      added_tokens;  // contents are distinct, patterns too where both are normalized
  std::optional<UnicodeNormalizer> normalizer;
  PreTokenizer pre_tokenizer;
  BpeSpec model;
  PostProcessor post_processor;
  uint32_t id_count = 0;  // one more than the largest id
};

/// Throws std::runtime_error.
TokenizerSpec read_tokenizer_json(const std::filesystem::path& path);

/// The same from the bytes of a file; `name` stands for it in messages.
TokenizerSpec parse_tokenizer_json(std::string_view bytes, const std::string& name);

}  // namespace espalier::text
