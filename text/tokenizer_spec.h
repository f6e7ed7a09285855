// What a Tokenizer is built from: plain data, read from a `tokenizer.json` or filled from other
// files (Tokenizer::from_spec).
//
// Thread contract: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace espalier::text {

/// Ids that the post-processor's template puts around a text.
struct PostProcessor {
  std::vector<uint32_t> prefix, suffix;
};

struct TokenizerSpec {
  /// Contents are distinct. A token that is an entry of the vocabulary has its id; the ids of the
  /// others are no entry's.
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeSpec model;
  PostProcessor post_processor;
  Decoder decoder;  // without effect on byte-level vocabularies, which have one of their own
};

/// One more than the largest id.
size_t count_ids(const TokenizerSpec& spec);

/// Sets what is looked for: the content, normalized if the token asks for it.
void set_pattern(AddedToken& token, const Normalizer& normalizer);

/// Throws std::runtime_error, "name: what is wrong", if ids do not fit together.
void check_spec(const TokenizerSpec& spec, const std::string& name);

}  // namespace espalier::text
