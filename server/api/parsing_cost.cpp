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

/// The end of the string that begins behind its quote at `at`: where its closing quote stands.
size_t string_end(std::string_view body, size_t at) {
  while (at < body.size()) {
    at = body.find_first_of("\"\\", at);
    if (at == std::string_view::npos) return body.size();
    if (body[at] == '"') return at;
    at += 2;
  }
  return body.size();
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

ParsingCost parsing_cost(std::string_view body) {
  const Marks marks = marks_of(body);
  const size_t values = kept(marks.values + 1);
  const size_t tree = values * kSlot + kept(marks.lists) * kList + kept(marks.objects) * kObject +
                      kept(marks.members) * kMember + kept(marks.strings) * kString +
                      marks.string_bytes;
  const size_t made = kept(marks.lists + marks.objects + marks.strings) * kInput +
                      marks.string_bytes + kIdBytes * values;
  ParsingCost cost;
  cost.parsing = tree + std::max(made, kLexerCopies * marks.longest_string);
  // Beside what was made, of the text that is being tokenized its copy behind a prompt, and ids, of
  // which each takes a byte of text at least, in vectors that double.
  cost.request = made + marks.longest_string + 2 * kIdBytes * (values + kept(marks.string_bytes));
  return cost;
}

}  // namespace espalier::server
