// What a reranker is asked, as a sequence of literal texts and places for what a request sends.
//
// Templates come from three sources: those of well-known models (here), a text file of the user's
// (parse_plain_template), and the model's own jinja (score_template_jinja.h).
//
// Thread contract: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace espalier::text {

enum class RerankField : uint8_t { kInstruction, kQuery, kDocument };

/// Where a request's text goes.
struct RerankPlace {
  RerankField field = RerankField::kDocument;
  bool trimmed = false;  // without the white space around it
  bool operator==(const RerankPlace&) const = default;
};

/// What is before and behind it is tokenized apart. (So is what is before and behind an added token
/// in a literal text.)
struct RerankCut {
  bool plain = false;  // up to the next cut added tokens are text, in literal texts too
  bool operator==(const RerankCut&) const = default;
};

using RerankPart = std::variant<std::string, RerankPlace, RerankCut>;
using RerankParts = std::vector<RerankPart>;

struct RerankTemplate {
  std::string name;                       // for messages
  RerankParts plain;                      // of requests without an instruction: of a place for it
                                          // they get kDefaultRerankInstruction
  std::optional<RerankParts> instructed;  // of those with one; absent: the model takes none
};

/// The instruction that Qwen3-Reranker was trained with, for requests that name none.
inline constexpr std::string_view kDefaultRerankInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

/// Qwen3-Reranker's: system, instruction, query and document in one turn, an empty thought.
RerankTemplate qwen3_reranker_template();
/// mxbai-rerank-v2's, whose parts its own code tokenizes one by one.
RerankTemplate mxbai_rerank_template();
/// zerank's: the query in the system's turn, the document in the user's.
RerankTemplate zerank_template();

/// One of those by its name, "qwen3-reranker", "mxbai-rerank-v2" or "zerank-2".
std::optional<RerankTemplate> known_template(std::string_view name);

/// A text with {query}, {document} and, if the model takes one, {instruction}; everything else is
/// literal, other braces too. A line break at its end is dropped, as editors add one. Requests
/// without an instruction get the default one. Throws std::runtime_error as check_template().
RerankTemplate parse_plain_template(std::string_view text, std::string name);

/// How often a request's texts may be repeated: a template is not to make much of little.
inline constexpr size_t kRepeatedPlacesMax = 8;

/// Throws std::runtime_error, with the template's name, unless the document has exactly one place,
/// the query one at least, the instruction one in `instructed`, and none too many.
void check_template(const RerankTemplate& rerank);

}  // namespace espalier::text
