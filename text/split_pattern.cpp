#include "text/split_pattern.h"

#include "text/pattern_translation.h"

namespace espalier::text {

SplitPattern SplitPattern::regex(std::string_view pattern) {
  if (auto scanner = WordScanner::for_pattern(pattern)) return SplitPattern(*std::move(scanner));
  return SplitPattern(RegexSplitter(translate_oniguruma_pattern(pattern)));
}

SplitPattern SplitPattern::literal(std::string_view text) {
  return SplitPattern(RegexSplitter(quote_pattern(text)));
}

size_t SplitPattern::split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                                std::vector<std::string_view>& pieces) const {
  return std::visit(
      [&](const auto& splitter) {
        return splitter.split_from(text, from, end, pieces_max, pieces);
      },
      splitter_);
}

bool SplitPattern::starts_afresh() const {
  const auto* const regex = std::get_if<RegexSplitter>(&splitter_);
  return regex == nullptr || !regex->looks_behind();
}

}  // namespace espalier::text
