#include "text/pre_tokenizer.h"

#include <utility>

namespace espalier::text {

void PreTokenizer::for_each_pre_token(std::string_view text, PreTokenScratch& scratch,
                                      const std::function<void(std::string_view)>& visit) const {
  if (text.empty()) return;
  scratch.pieces.assign(1, text);
  for (const SplitPattern& split : splits) {
    scratch.finer_pieces.clear();
    for (const std::string_view piece : scratch.pieces) split.split(piece, scratch.finer_pieces);
    std::swap(scratch.pieces, scratch.finer_pieces);
  }
  for (std::string_view piece : scratch.pieces) {
    if (add_prefix_space && !piece.starts_with(' ')) {
      scratch.prefixed.assign(1, ' ').append(piece);
      piece = scratch.prefixed;
    }
    if (!byte_level_split) {
      visit(piece);
      continue;
    }
    scratch.finer_pieces.clear();
    byte_level_split->split(piece, scratch.finer_pieces);
    for (const std::string_view word : scratch.finer_pieces) visit(word);
  }
}

}  // namespace espalier::text
