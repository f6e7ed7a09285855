// The merges of a SentencePiece vocabulary, which has scores instead: GGUF files of
// `tokenizer.ggml.model = "llama"` hold only those.
//
// Thread contract: a pure function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/merge_table.h"

namespace espalier::text {

/// Every way to make an entry of two others, the entry of the highest score first; of entries with
/// the same score the one with the lower id, of one entry those whose left and then right part have
/// the lower id. `tokens[i]` is the content of id i (empty: none), and `scores[i]` its score.
///
/// That is the list in the `tokenizer.json` that Hugging Face's converter makes of such a model.
/// (SentencePiece itself and llama.cpp take the leftmost of pairs whose entries have the same
/// score; but for runs of spaces the scores of published models differ.)
///
/// Of the same content twice the lower id counts. Entries of more than 256 bytes, which are no
/// pieces of words, are merged from nothing. Throws std::invalid_argument if the lists differ in
/// length or a score is not a number.
///
/// To make a tokenizer of such a file, fill a TokenizerSpec and call Tokenizer::from_spec:
///   model            vocabulary: tokens by content; merges: these; byte_level = false;
///                    unknown = {byte_fallback = true, unk_id, fuse_unk = true}
///   normalizer       PrependNormalizer{kSpaceMark} unless add_space_prefix is false, then
///                    ReplaceNormalizer{" ", kSpaceMark}
///   decoder          ReplaceDecoder{kSpaceMark, " "}, ByteFallbackDecoder, FuseDecoder, and
///                    StripDecoder{" ", 1, 0} if there is a prefix
///   added_tokens     control and user-defined tokens, `normalized` false, with set_pattern()
///   post_processor   the ids of BOS and EOS, if the file asks for them
std::vector<Merge> sentencepiece_merges(const std::vector<std::string>& tokens,
                                        std::span<const float> scores);

}  // namespace espalier::text
