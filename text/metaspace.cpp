#include "text/metaspace.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier::text {

bool Metaspace::prepends(std::string_view text, bool begins_text) const {
  if (text.empty() || prepend == Prepend::kNever) return false;
  if (prepend == Prepend::kFirst && !begins_text) return false;
  return text.front() != ' ' && !text.starts_with(mark);
}

std::string_view Metaspace::marked(std::string_view text, bool begins_text,
                                   std::string& buffer) const {
  buffer.clear();
  buffer.reserve(text.size() + text.size() / 2 + mark.size());
  if (prepends(text, begins_text)) buffer.append(mark);
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    buffer.append(text.substr(at, space - at));
    if (space < text.size()) buffer.append(mark);
    at = space + 1;
  }
  return buffer;
}

std::string_view Metaspace::marked(std::string_view text, bool begins_text, std::string& buffer,
                                   Alignment& alignment) const {
  size_t at = 0;
  if (prepends(text, begins_text)) {
    at = decode_utf8(text, 0).length;
    alignment.append_changed(mark.size() + at, at);
  }
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    alignment.append_same(space - at);
    if (space < text.size()) alignment.append_changed(mark.size(), 1);
    at = space + 1;
  }
  return marked(text, begins_text, buffer);
}

size_t MarkedWords::split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                               std::vector<std::string_view>& pieces) const {
  for (size_t count = 0; from < text.size() && count < pieces_max; ++count) {
    size_t behind_mark = from;
    if (text.substr(from).starts_with(mark)) behind_mark += mark.size();
    while (!each && text.substr(behind_mark).starts_with(mark)) behind_mark += mark.size();
    size_t word_end = text.find(mark, behind_mark);
    if (word_end == text.npos) {
      if (end == TextEnd::kOpen) break;  // the word may go on
      word_end = text.size();
    }
    pieces.push_back(text.substr(from, word_end - from));
    from = word_end;
  }
  return from;
}

}  // namespace espalier::text
