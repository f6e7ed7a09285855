// The readers of the components in a `tokenizer.json`, one file each. All throw std::runtime_error
// from the field that they refuse.
//
// Thread contract: pure functions.
#pragma once

#include "text/json_field.h"
#include "text/tokenizer_spec.h"

namespace espalier::text {

/// `pre_tokenizer`, and whether `ByteLevel` is in it, so that the vocabulary must be byte-level.
/// `Split`s and `Digits` that may end with `ByteLevel`, or `Metaspace` alone.
struct PreTokenizerAndLevel {
  PreTokenizer pre_tokenizer;
  bool byte_level = false;
};
PreTokenizerAndLevel read_pre_tokenizer(const JsonField& pre_tokenizer);

/// A `Metaspace`, which may be a pre-tokenizer or a decoder.
Metaspace read_metaspace(const JsonField& metaspace);

/// `model`: BPE.
BpeSpec read_bpe(const JsonField& model, bool byte_level);

/// `normalizer`: NFC, Prepend, Replace and sequences of them.
Normalizer read_normalizer(const JsonField& normalizer);

/// `decoder` of a vocabulary that is not byte-level.
Decoder read_decoder(const JsonField& decoder);

/// `post_processor`: ByteLevel, TemplateProcessing and sequences of them, for a single text.
PostProcessor read_post_processor(const JsonField& post_processor);

/// `Sequence`s flattened: the components in `field`, which has its list under `list_key` if it is
/// one.
std::vector<JsonField> flatten_sequence(const JsonField& field, std::string_view list_key);

}  // namespace espalier::text
