// Which bytes of a source text those of a text made from it stand for: U+FFFD for a stretch of
// invalid UTF-8, a composed character for a letter and its accent.
//
// Thread contract: a value; const calls may run at once.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace espalier::text {

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// `range` of `text` (valid UTF-8), grown to whole characters.
ByteRange whole_characters(std::string_view text, ByteRange range);

class Alignment {
 public:
  /// The next `bytes` of the made text are the next of the source.
  void append_same(size_t bytes);

  /// The next `bytes` of the made text (not 0) stand for the next `source_bytes` as a whole.
  void append_changed(size_t bytes, size_t source_bytes);

  /// The next characters of the made text (not none) stand for the next of the source: those at
  /// both ends that are the same for themselves, the others are matched up in order.
  void append_matched(std::string_view source, std::string_view made);

  /// The bytes of the source that `made` stands for. `made` is not empty, within what was
  /// appended, and ends at ends of characters.
  ByteRange source_of(ByteRange made) const;

 private:
  struct Span {
    size_t begin;  // in the made text, up to the next span
    ByteRange source;
    bool same;
  };
  const Span& span_at(size_t made) const;
  size_t source_end() const { return spans_.empty() ? 0 : spans_.back().source.end; }

  std::vector<Span> spans_;
  size_t size_ = 0;  // of the made text
};

}  // namespace espalier::text
