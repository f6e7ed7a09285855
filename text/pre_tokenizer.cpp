#include "text/pre_tokenizer.h"

#include <utility>

namespace espalier::text {
namespace {

/// So few that a text which is cut is not split much further than that, so many that the cost of a
/// call does not count.
constexpr size_t kPiecesPerCall = 128;

}  // namespace

/// The pattern that alone decides where the text is cut into pieces, each of which is then treated
/// by itself; null if the text is one piece.
const SplitPattern* PreTokenizer::first_split() const {
  if (!splits.empty()) return &splits.front();
  // A space before the text is none before each piece.
  return byte_level_split && !add_prefix_space ? &*byte_level_split : nullptr;
}

bool PreTokenizer::starts_afresh() const {
  return first_split() != nullptr && first_split()->starts_afresh();
}

size_t PreTokenizer::next_words(std::string_view text, size_t from, TextEnd end,
                                PreTokenScratch& scratch) const {
  scratch.words.clear();
  if (from == text.size()) return from;
  const SplitPattern* const first = first_split();
  if (first == nullptr) {
    if (end == TextEnd::kOpen) return from;
    scratch.words.push_back(text);
    from = text.size();
  } else {
    from = first->split_from(text, from, end, kPiecesPerCall, scratch.words);
  }
  for (const SplitPattern& split : splits) {
    if (&split != first) refine(split, scratch);
  }
  if (add_prefix_space) add_prefix_spaces(scratch);
  if (byte_level_split && &*byte_level_split != first) refine(*byte_level_split, scratch);
  return from;
}

/// Cuts each of the words.
void PreTokenizer::refine(const SplitPattern& split, PreTokenScratch& scratch) const {
  std::swap(scratch.words, scratch.coarser);
  scratch.words.clear();
  for (const std::string_view piece : scratch.coarser) split.split(piece, scratch.words);
}

void PreTokenizer::add_prefix_spaces(PreTokenScratch& scratch) const {
  size_t bytes = 0;
  for (const std::string_view word : scratch.words) bytes += word.size() + 1;
  scratch.prefixed.clear();
  scratch.prefixed.reserve(bytes);  // so that it does not move under the words
  for (std::string_view& word : scratch.words) {
    if (word.starts_with(' ')) continue;
    const size_t begin = scratch.prefixed.size();
    scratch.prefixed.append(1, ' ').append(word);
    word = std::string_view(scratch.prefixed).substr(begin);
  }
}

}  // namespace espalier::text
