#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace espalier::text {
namespace {

/// Unicode's White_Space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Where the white space that ends at `end` starts, but not before `from`.
size_t white_space_before(std::string_view text, size_t from, size_t end) {
  while (end > from) {
    size_t at = end - 1;
    while (at > from && (text[at] & 0xC0) == 0x80) --at;
    if (!is_white_space(decode_utf8(text, at).code_point)) break;
    end = at;
  }
  return end;
}

size_t white_space_behind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const DecodedCharacter character = decode_utf8(text, begin);
    if (!is_white_space(character.code_point)) break;
    begin += character.length;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.pattern < b.pattern; });
  for (const AddedToken& token : tokens_) {
    starts_token_[static_cast<unsigned char>(token.pattern.front())] = true;
    longest_pattern_ = std::max(longest_pattern_, token.pattern.size());
    strips_ = strips_ || token.strip_left || token.strip_right;
  }
}

/// The longest token that `text` starts with: the sorted tokens that agree with it, narrowed byte
/// by byte.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto begin = tokens_.begin(), end = tokens_.end();
  for (size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    // All of [begin, end) are longer than `depth`: a token that ends here sorts first and is
    // passed.
    const auto byte_at = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.pattern[depth]);
    };
    const auto wanted = static_cast<unsigned char>(text[depth]);
    begin = std::partition_point(begin, end, [&](const auto& t) { return byte_at(t) < wanted; });
    end = std::partition_point(begin, end, [&](const auto& t) { return byte_at(t) == wanted; });
    if (begin != end && begin->pattern.size() == depth + 1) longest = &*begin++;
  }
  return longest;
}

/// Tokens that start before it are in `text` as a whole, and the longest there is known.
size_t AddedTokenMatcher::search_end(std::string_view text, TextEnd end) const {
  if (end == TextEnd::kFinal) return text.size();
  if (strips_) return 0;  // white space at the end may belong to a token that follows
  size_t result = text.size() - std::min(text.size(), longest_pattern_ - 1);
  while (result > 0 && result < text.size() && (text[result] & 0xC0) == 0x80) --result;
  return result;
}

std::vector<TextSegment> AddedTokenMatcher::split(std::string_view text, TextEnd text_end) const {
  std::vector<TextSegment> segments;
  const size_t stop = search_end(text, text_end);
  size_t rest_begin = 0;  // what is before it is in `segments`
  for (size_t at = tokens_.empty() ? stop : 0; at < stop;) {
    const AddedToken* token =
        starts_token_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->pattern.size();
    at = end;  // the next match may lie in white space that this one swallows, as in the original
    if (token->strip_left) begin = white_space_before(text, std::min(rest_begin, begin), begin);
    if (token->strip_right) end = white_space_behind(text, end);
    if (rest_begin < begin) {
      segments.push_back({std::nullopt, text.substr(rest_begin, begin - rest_begin)});
    }
    segments.push_back({token->id, text.substr(begin, end - begin)});
    rest_begin = end;
  }
  if (rest_begin < stop) {
    segments.push_back({std::nullopt, text.substr(rest_begin, stop - rest_begin)});
  }
  return segments;
}

}  // namespace espalier::text
