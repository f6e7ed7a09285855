// A rerank template filled, as token ids.
//
// The template falls into *segments* that are tokenized apart and joined: at its added tokens
// (`<|im_end|>` …), as Hugging Face tokenizes the whole, and where it says so (RerankCut). Added
// tokens are recognised in segments of literal text alone, and not in those that a cut calls plain.
// A segment with places is one string, filled by concatenation, in which none is: so nothing that a
// user sends can forge a special token, nor is a place in it filled.
//
// What is before the document is tokenized once for many documents, with the ids of the one string.
// Where a document is cut, what follows it in its segment is tokenized apart from it.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/rerank_template.h"
#include "text/tokenizer.h"

namespace espalier::text {

class RerankPrompt {
 public:
  /// Keeps a reference to `tokenizer`, which must outlive it. Throws std::runtime_error if the
  /// template spells a token <|…|> that the tokenizer lacks, and as check_template().
  explicit RerankPrompt(const Tokenizer& tokenizer,
                        const RerankTemplate& rerank = qwen3_reranker_template());

  /// Whether prepare() takes an instruction.
  bool takes_instruction() const { return instructed_.has_value(); }
  /// The template's name.
  const std::string& name() const { return name_; }

  /// What the prompts of one request have in common: everything but the document.
  struct Shared {
    std::vector<uint32_t> ids;        // of the segments before the document's, and those of its own
                                      // that no document changes
    std::string rest;                 // what is left of it to be tokenized with the document
    std::string after;                // what follows the document in its segment,
    std::vector<uint32_t> after_ids;  // … tokenized apart
    std::vector<uint32_t> tail;       // the segments behind it
    bool document_trimmed = false;
    bool cut = false;  // they are longer than a prompt by themselves; their beginnings are here
  };
  /// For prompts of at most `max_tokens`: of an instruction and a query that alone are longer than
  /// that only the beginning is read, and every prompt made with them is truncated. An absent
  /// instruction is the template's default one, or none. Needs takes_instruction() for others.
  Shared prepare(std::optional<std::string_view> instruction, std::string_view query,
                 size_t max_tokens) const;

  struct Encoded {
    std::vector<uint32_t> ids;
    bool truncated = false;  // longer than max_tokens allowed: the document's end was cut
  };
  static constexpr size_t kWholeDocument = SIZE_MAX;
  /// At most `max_tokens` ids; the end of the document is cut, never the template's, unless that is
  /// longer than `max_tokens` together with the query and the instruction. What is cut off a
  /// document costs no time. Of the document no more than its first `document_tokens_max` ids are
  /// taken, which does not count as truncated.
  Encoded encode(const Shared& shared, std::string_view document, size_t max_tokens,
                 size_t document_tokens_max = kWholeDocument) const;
  Encoded encode(std::optional<std::string_view> instruction, std::string_view query,
                 std::string_view document, size_t max_tokens) const {
    return encode(prepare(instruction, query, max_tokens), document, max_tokens);
  }

  /// Tokens of the segments without places, together, of requests without an instruction.
  size_t fixed_tokens() const { return fixed_tokens_; }

 private:
  /// Literal text, tokenized; or text with places.
  struct Segment {
    std::vector<uint32_t> ids;
    RerankParts parts;
  };
  class Segments;
  /// The segments of one form of the template, around the document's.
  struct Layout {
    std::vector<Segment> before;
    RerankParts before_document;  // in its segment
    RerankPlace document;
    RerankParts behind_document;  // likewise
    std::vector<Segment> behind;
  };

  Layout lay_out(const RerankParts& parts) const;

  const Tokenizer* tokenizer_;
  std::string name_;
  Layout plain_;
  std::optional<Layout> instructed_;
  size_t fixed_tokens_ = 0;
};

}  // namespace espalier::text
