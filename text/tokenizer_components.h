// The readers of the components in a `tokenizer.json`, one file each. All throw std::runtime_error
// from the field that they refuse.
//
// Thread contract: pure functions.
#pragma once

#include "text/json_field.h"
#include "text/tokenizer_json.h"

namespace espalier::text {

/// `model`: byte-level BPE.
BpeSpec read_bpe(const JsonField& model);

/// `pre_tokenizer`: a sequence of `Split`s that ends with `ByteLevel`, or that alone.
PreTokenizer read_pre_tokenizer(const JsonField& pre_tokenizer);

/// `post_processor`: ByteLevel, TemplateProcessing and sequences of them, for a single text.
PostProcessor read_post_processor(const JsonField& post_processor);

/// `Sequence`s flattened: the components in `field`, which has its list under `list_key` if it is
/// one.
std::vector<JsonField> flatten_sequence(const JsonField& field, std::string_view list_key);

}  // namespace espalier::text
