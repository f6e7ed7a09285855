#include "text/alignment.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier::text {
namespace {

std::vector<size_t> character_ends(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size(); ends.push_back(at)) at += decode_utf8(text, at).length;
  return ends;
}

/// The characters that two stretches begin or end with in common, in bytes.
struct CommonEnds {
  size_t head, tail;
};
CommonEnds common_ends(std::string_view a, std::string_view b) {
  const size_t shorter = std::min(a.size(), b.size());
  const auto continues = [&](size_t at) { return at < a.size() && (a[at] & 0xC0) == 0x80; };
  size_t head = 0, tail = 0;
  while (head < shorter && a[head] == b[head]) ++head;
  while (continues(head)) --head;
  while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  while (continues(a.size() - tail)) --tail;
  return {head, tail};
}

}  // namespace

ByteRange whole_characters(std::string_view text, ByteRange range) {
  const auto continues = [&](size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  while (range.begin > 0 && continues(range.begin)) --range.begin;
  while (continues(range.end)) ++range.end;
  return range;
}

void Alignment::append_same(size_t bytes) {
  if (bytes == 0) return;
  const size_t source = source_end();
  if (spans_.empty() || !spans_.back().same) spans_.push_back({size_, {source, source}, true});
  spans_.back().source.end += bytes;
  size_ += bytes;
}

void Alignment::append_changed(size_t bytes, size_t source_bytes) {
  spans_.push_back({size_, {source_end(), source_end() + source_bytes}, false});
  size_ += bytes;
}

void Alignment::append_matched(std::string_view source, std::string_view made) {
  if (source == made) {
    append_same(source.size());
    return;
  }
  CommonEnds common = common_ends(source, made);
  // Something must be left in both to be matched up.
  if (common.head + common.tail == std::min(source.size(), made.size())) common = {0, 0};
  const auto middle = [&](std::string_view text) {
    return text.substr(common.head, text.size() - common.head - common.tail);
  };
  const std::vector<size_t> from = character_ends(middle(source)),
                            to = character_ends(middle(made));
  append_same(common.head);
  const size_t from_begin = source_end(), to_begin = size_;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t first = i * from.size() / to.size();
    const size_t last = ((i + 1) * from.size() - 1) / to.size();
    const ByteRange range{first == 0 ? 0 : from[first - 1], from[last]};
    spans_.push_back({size_, {from_begin + range.begin, from_begin + range.end}, false});
    size_ = to_begin + to[i];
  }
  append_same(common.tail);
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
