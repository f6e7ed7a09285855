#include "text/pre_tokenizer.h"

#include <utility>

namespace espalier::text {
namespace {

/// So few that a text which is cut is not split much further than that, so many that the cost of a
/// call does not count.
constexpr size_t kPiecesPerCall = 128;

/// Cuts each of the words.
template <typename Cutter>
void refine(const Cutter& cutter, PreTokenScratch& scratch) {
  std::swap(scratch.words, scratch.coarser);
  scratch.words.clear();
  for (const std::string_view piece : scratch.coarser) cutter.split(piece, scratch.words);
}

}  // namespace

/// The pattern that alone decides where the text is cut into pieces, each of which is then treated
/// by itself; null if the text is one piece.
const SplitPattern* PreTokenizer::first_split() const {
  if (!splits.empty()) return splits.front().isolated_pattern();
  // A space before the text is none before each piece.
  return byte_level_split && !add_prefix_space ? &*byte_level_split : nullptr;
}

bool PreTokenizer::starts_afresh() const {
  // What follows starts with a mark and is put none before. A mark of another kind might compose
  // with what is around it when it is normalized again.
  if (marked_words) return marked_words->mark == kSpaceMark;
  return first_split() != nullptr && first_split()->starts_afresh();
}

size_t PreTokenizer::next_words(std::string_view text, size_t from, TextEnd end,
                                PreTokenScratch& scratch) const {
  scratch.words.clear();
  if (from == text.size()) return from;
  if (marked_words) {
    return marked_words->split_from(text, from, end, kPiecesPerCall, scratch.words);
  }
  const SplitPattern* const first = first_split();
  if (first == nullptr) {
    if (end == TextEnd::kOpen) return from;
    scratch.words.push_back(text);
    from = text.size();
  } else {
    from = first->split_from(text, from, end, kPiecesPerCall, scratch.words);
  }
  for (const Split& split : splits) {
    if (first == nullptr || split.isolated_pattern() != first) refine(split, scratch);
  }
  if (add_prefix_space) add_prefix_spaces(scratch);
  if (byte_level_split && &*byte_level_split != first) refine(*byte_level_split, scratch);
  return from;
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
