// A tokenizer as GGUF files describe it: the vocabulary in full, the rest by names that llama.cpp
// gives to well-known tokenizers. Ids are those of the Hugging Face tokenizer that a file was made
// from; where llama.cpp's differ (it leaves out NFC), they are Hugging Face's.
//
// Thread contract: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier::text {

/// Values of the keys `tokenizer.ggml.…`; the views need to last only as long as
/// tokenizer_of_ggml().
struct GgmlVocabulary {
  std::string model;                     // "gpt2": byte-level BPE; "llama": SentencePiece's BPE
  std::string pre;                       // gpt2: how words are cut
  std::vector<std::string_view> tokens;  // by id
  std::vector<int32_t> token_type;       // of each; empty: all are normal
  std::vector<float> scores;             // of each: llama
  std::vector<std::string_view> merges;  // "a b": gpt2
  std::optional<uint64_t> bos_token_id, eos_token_id;
  std::optional<bool> add_bos_token, add_eos_token, add_space_prefix;
};

/// Throws std::runtime_error, "name: key: reason", for what is malformed or not known.
Tokenizer tokenizer_of_ggml(const GgmlVocabulary& vocabulary, const std::string& name);

}  // namespace espalier::text
