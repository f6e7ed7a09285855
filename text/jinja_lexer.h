// A jinja template cut into literal text and the words of its tags.
//
// Thread contract: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::text::jinja {

enum class TokenKind : uint8_t {
  kLiteral,  // text between tags
  kOpen,     // "{{" or "{%"
  kClose,    // "}}" or "%}"
  kName,
  kString,  // without its quotes, escapes resolved
  kNumber,
  kSign,  // an operator or a bracket
};

struct Token {
  TokenKind kind = TokenKind::kLiteral;
  std::string text;
};

/// White space around tags is dropped already; comments are, too. Throws std::runtime_error.
std::vector<Token> tokenize(std::string_view source);

}  // namespace espalier::text::jinja
