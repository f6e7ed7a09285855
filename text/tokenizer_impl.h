// What a Tokenizer is made of, for the files that implement it.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/text_end.h"
#include "text/token_table.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace espalier::text {

/// Buffers that are reused within one encode().
struct EncodeScratch {
  std::string normalized;
  std::string marked;
  PreTokenScratch pre_tokens;
  BpeScratch bpe;
};

/// Where ids go, and how many of them are wanted: words are not taken apart, so a few more may
/// come.
struct IdSink {
  std::vector<uint32_t> ids;
  size_t wanted = Tokenizer::kAllIds;

  bool full() const { return ids.size() >= wanted; }
};

struct Tokenizer::Impl {
  size_t id_count;
  Normalizer normalizer;
  AddedTokenMatcher raw_tokens;         // looked for before normalization …
  AddedTokenMatcher normalized_tokens;  // … and after it
  PreTokenizer pre_tokenizer;
  BpeModel model;
  PostProcessor post_processor;
  std::vector<AddedToken> added_tokens;
  Vocabulary added_ids;
  TokenTable entries;  // refers to `model` and `added_tokens`
  Decoder decoder;

  explicit Impl(TokenizerSpec spec);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  void append_ids(std::string_view text, TextEnd end, bool match_added_tokens, IdSink& sink) const;
  void append_segment(std::string_view raw, bool begins_text, TextEnd end,
                      const AddedTokenMatcher& tokens, EncodeScratch& scratch, IdSink& sink) const;
  std::string_view marked(std::string_view text, bool begins_text, std::string& buffer) const;
  size_t append_words(std::string_view text, TextEnd end, EncodeScratch& scratch,
                      IdSink& sink) const;

  // The same with offsets, in token_offsets.cpp.
  struct OffsetSink;
  void append_with_offsets(std::string_view text, bool match_added_tokens, OffsetSink& sink) const;
  void append_segment(std::string_view raw, const AddedTokenMatcher& tokens,
                      OffsetSink& sink) const;
  void append_words(std::string_view text, bool begins_text, OffsetSink& sink) const;

  std::string entry_bytes(std::string_view content) const;
};

}  // namespace espalier::text
