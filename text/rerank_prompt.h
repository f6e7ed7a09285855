// Qwen3-Reranker's prompt as token ids: head + middle + tail.
//
//   head    <|im_start|>system … <|im_end|>\n<|im_start|>user\n
//   middle  <Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}
//   tail    <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n
//
// The three are tokenized apart and joined, as the model card does. Added tokens are recognised in
// head and tail, never in the middle. The middle is one string filled by concatenation. So nothing
// that a user sends can forge a special token, nor is a placeholder in it filled. Its ids are those
// of the one string also when what is before the document is tokenized once for many documents.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier::text {

/// The instruction that Qwen3-Reranker was trained with, for requests that name none.
inline constexpr std::string_view kDefaultRerankInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

class RerankPrompt {
 public:
  /// Keeps a reference to `tokenizer`, which must outlive it.
  explicit RerankPrompt(const Tokenizer& tokenizer);

  /// What the prompts of one request have in common: everything up to the document.
  struct Shared {
    std::vector<uint32_t> ids;  // of the head, and those of the middle that no document changes
    std::string rest;           // of the middle: what is left to be tokenized with the document
  };
  /// For prompts of at most `max_tokens`: of an instruction and a query that alone are longer than
  /// that only the beginning is read, and every prompt made with them is truncated.
  Shared prepare(std::string_view instruction, std::string_view query, size_t max_tokens) const;

  struct Encoded {
    std::vector<uint32_t> ids;
    bool truncated = false;  // the middle was longer than max_tokens allowed, its end was cut
  };
  static constexpr size_t kWholeDocument = SIZE_MAX;
  /// At most `max_tokens` ids; the end of the middle is cut, never head or tail. `max_tokens` must
  /// be larger than fixed_tokens(). What is cut off a document costs no time. Of the document no
  /// more than its first `document_tokens_max` ids are taken, which does not count as truncated.
  Encoded encode(const Shared& shared, std::string_view document, size_t max_tokens,
                 size_t document_tokens_max = kWholeDocument) const;
  Encoded encode(std::string_view instruction, std::string_view query, std::string_view document,
                 size_t max_tokens) const {
    return encode(prepare(instruction, query, max_tokens), document, max_tokens);
  }

  /// Tokens of head and tail together.
  size_t fixed_tokens() const { return head_.size() + tail_.size(); }

 private:
  const Tokenizer* tokenizer_;
  std::vector<uint32_t> head_, tail_;
};

}  // namespace espalier::text
