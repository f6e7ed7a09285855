#include "server/api/parsing_cost.h"

#include <algorithm>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

// Of the parsed tree, with what the allocator adds, in bytes. Values stand in vectors that double:
// while one grows, the old values are there, too.
constexpr size_t kSlot = 32;
constexpr size_t kList = 64;
constexpr size_t kObject = 64;
constexpr size_t kMember = 96;
constexpr size_t kString = 48;
/// Of what a request holds of each input before their number is checked.
constexpr size_t kInput = 80;
/// The lexer has a string twice, in buffers that double.
constexpr size_t kLexerCopies = 3;
constexpr size_t kIdBytes = 4;
/// A text that is being tokenized stands behind its prompt, and normalized.
constexpr size_t kTextCopies = 2;

/// What stands in a body, counted without understanding it.
struct Marks {
  size_t values = 0;  // at most: each but the first one follows a comma or an opening bracket
  size_t lists = 0;
  size_t objects = 0;
  size_t members = 0;
  size_t strings = 0;
  size_t string_bytes = 0;
  size_t longest_string = 0;
};

/// The end of the string that begins behind its quote at `begin`: where its closing quote stands.
/// By its quotes, which are found many times faster than what escapes them.
size_t string_end(std::string_view body, size_t begin) {
  for (size_t at = begin;; ++at) {
    at = body.find('"', at);
    if (at == std::string_view::npos) return body.size();
    size_t backslashes = 0;
    while (backslashes < at - begin && body[at - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) return at;
  }
}

Marks marks_of(std::string_view body) {
  Marks marks;
  for (size_t at = 0; at < body.size(); ++at) {
    switch (body[at]) {
      case '[':
        ++marks.lists;
        ++marks.values;
        break;
      case '{':
        ++marks.objects;
        ++marks.values;
        break;
      case ',':
        ++marks.values;
        break;
      case ':':
        ++marks.members;
        break;
      case '"': {
        const size_t end = string_end(body, at + 1);
        ++marks.strings;
        marks.string_bytes += end - at;
        marks.longest_string = std::max(marks.longest_string, end - at);
        at = end;
        break;
      }
      default:
        break;
    }
  }
  return marks;
}

/// `count` of something of which each is a value, of which a body may have so many.
size_t kept(size_t count) { return std::min(count, kJsonValuesMax); }

}  // namespace

ParsingCost parsing_cost(std::string_view body, size_t tokenizer_threads) {
  const Marks marks = marks_of(body);
  const size_t values = kept(marks.values + 1);
  const size_t tree = values * kSlot + kept(marks.lists) * kList + kept(marks.objects) * kObject +
                      kept(marks.members) * kMember + kept(marks.strings) * kString +
                      marks.string_bytes;
  const size_t made = kept(marks.lists + marks.objects + marks.strings) * kInput +
                      marks.string_bytes + kIdBytes * values;
  ParsingCost cost;
  cost.parsing = tree + std::max(made, kLexerCopies * marks.longest_string);
  cost.inputs = made;
  // Each token takes a byte of text at least. Those that a text has in all are there until it is
  // cut to as many as a request may have.
  const size_t at_once =
      std::min(marks.string_bytes, std::max<size_t>(1, tokenizer_threads) * marks.longest_string);
  cost.request = made + (kTextCopies + kIdBytesAtMost) * at_once +
                 kIdBytesAtMost * (values + kept(marks.string_bytes));
  return cost;
}

}  // namespace espalier::server
