#include "text/alignment.h"

#include <algorithm>

namespace espalier::text {

ByteRange whole_characters(std::string_view text, ByteRange range) {
  const auto continues = [&](size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  while (range.begin > 0 && continues(range.begin)) --range.begin;
  while (continues(range.end)) ++range.end;
  return range;
}

void Alignment::append_same(size_t bytes) {
  if (bytes == 0) return;
  const size_t source = spans_.empty() ? 0 : spans_.back().source.end;
  if (spans_.empty() || !spans_.back().same) spans_.push_back({size_, {source, source}, true});
  spans_.back().source.end += bytes;
  size_ += bytes;
}

void Alignment::append_changed(size_t bytes, ByteRange source) {
  spans_.push_back({size_, source, false});
  size_ += bytes;
}

const Alignment::Span& Alignment::span_at(size_t made) const {
  const auto behind = std::upper_bound(spans_.begin(), spans_.end(), made,
                                       [](size_t at, const Span& span) { return at < span.begin; });
  return *(behind - 1);
}

ByteRange Alignment::source_of(ByteRange made) const {
  const Span& first = span_at(made.begin);
  const Span& last = span_at(made.end - 1);
  return {first.same ? first.source.begin + (made.begin - first.begin) : first.source.begin,
          last.same ? last.source.begin + (made.end - last.begin) : last.source.end};
}

}  // namespace espalier::text
