#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace espalier::text::jinja {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string with_unix_line_breaks(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : rest_(source) {}

  std::vector<Token> run() {
    while (!rest_.empty()) {
      take_literal();
      if (!rest_.empty()) take_tag();
    }
    return std::move(tokens_);
  }

 private:
  /// Up to the next tag, of which only the bracket's kind is looked at.
  void take_literal() {
    size_t end = 0;
    for (; end < rest_.size(); ++end) {
      const std::string_view at = rest_.substr(end, 2);
      if (at == "{{" || at == "{%" || at == "{#") break;
    }
    std::string_view literal = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (drops_left_)
      literal.remove_prefix(std::min(literal.find_first_not_of(kSpaces), literal.size()));
    if (drops_line_break_ && literal.starts_with('\n')) {
      literal.remove_prefix(1);
      starts_line_ = true;
    }
    const bool block = rest_.size() > 1 && rest_[1] != '{';
    const char mark = rest_.size() > 2 ? rest_[2] : '\0';
    if (mark == '-') {
      literal = literal.substr(0, literal.find_last_not_of(kSpaces) + 1);
    } else if (block && mark != '+') {
      strip_indent(literal);
    }
    if (!literal.empty()) tokens_.push_back({TokenKind::kLiteral, std::string(literal)});
  }

  /// lstrip_blocks: what a line has before a block that is first in it, if that is white space.
  void strip_indent(std::string_view& literal) const {
    const size_t line_break = literal.rfind('\n');
    if (line_break == std::string_view::npos && !starts_line_) return;
    const size_t line = line_break + 1;  // 0 where there is none
    if (literal.find_first_not_of(kSpaces, line) == std::string_view::npos) {
      literal = literal.substr(0, line);
    }
  }

  void take_tag() {
    const char kind = rest_[1];
    rest_.remove_prefix(2);
    if (!rest_.empty() && (rest_[0] == '-' || rest_[0] == '+')) rest_.remove_prefix(1);
    if (kind == '#') {
      const size_t end = rest_.find("#}");
      if (end == std::string_view::npos) throw std::runtime_error("a comment does not end");
      close(end > 0 && rest_[end - 1] == '-', true);
      rest_.remove_prefix(end + 2);
      return;
    }
    const std::string end = kind == '{' ? "}}" : "%}";
    tokens_.push_back({TokenKind::kOpen, kind == '{' ? "{{" : "{%"});
    size_t brackets = 0;  // "}}" may also close two dictionaries, which are refused anyway
    for (;;) {
      while (!rest_.empty() && is_space(rest_[0])) rest_.remove_prefix(1);
      if (rest_.empty()) throw std::runtime_error("a tag does not end");
      const bool marked = (rest_[0] == '-' || rest_[0] == '+') && rest_.substr(1).starts_with(end);
      if (brackets == 0 && (marked || rest_.starts_with(end))) {
        close(marked && rest_[0] == '-', kind == '%' && !(marked && rest_[0] == '+'));
        rest_.remove_prefix(marked ? 3 : 2);
        tokens_.push_back({TokenKind::kClose, end});
        return;
      }
      take_word();
      if (tokens_.back().text == "(" || tokens_.back().text == "[") ++brackets;
      if ((tokens_.back().text == ")" || tokens_.back().text == "]") && brackets > 0) --brackets;
    }
  }

  /// How the text behind a tag begins.
  void close(bool drops_left, bool drops_line_break) {
    drops_left_ = drops_left;
    drops_line_break_ = drops_line_break && !drops_left;
    starts_line_ = false;
  }

  void take_word() {
    if (rest_[0] == '"' || rest_[0] == '\'') return take_string();
    size_t size = 1;
    TokenKind kind = TokenKind::kSign;
    if (is_name_start(rest_[0]) || is_digit(rest_[0])) {
      kind = is_digit(rest_[0]) ? TokenKind::kNumber : TokenKind::kName;
      while (size < rest_.size() && (is_name_start(rest_[size]) || is_digit(rest_[size]))) ++size;
    } else {
      constexpr std::array<std::string_view, 6> kLong = {"==", "!=", "<=", ">=", "**", "//"};
      const bool is_long = std::ranges::find(kLong, rest_.substr(0, 2)) != kLong.end();
      size = is_long ? 2 : 1;
    }
    tokens_.push_back({kind, std::string(rest_.substr(0, size))});
    rest_.remove_prefix(size);
  }

  void take_string() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        tokens_.push_back({TokenKind::kString, std::move(text)});
        return;
      }
      if (rest_[i] == '\\' && i + 1 < rest_.size()) {
        text += unescaped(rest_[++i]);
      } else {
        text += rest_[i];
      }
    }
    throw std::runtime_error("a string does not end");
  }

  static char unescaped(char c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '\'':
        return c;
      default:
        throw std::runtime_error(std::string("the escape \\") + c);
    }
  }

  std::string_view rest_;
  std::vector<Token> tokens_;
  bool drops_left_ = false;
  bool drops_line_break_ = false;
  bool starts_line_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  const std::string text = with_unix_line_breaks(source);
  std::string_view view = text;
  if (view.ends_with('\n')) view.remove_suffix(1);
  return Lexer(view).run();
}

}  // namespace espalier::text::jinja
