#include "text/jinja_syntax.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "text/jinja_lexer.h"

namespace espalier::text::jinja {
namespace {

/// In one statement: the evaluation recurses over its operations.
constexpr size_t kOperationsMax = 256;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Statement> run() {
    std::vector<Statement> statements = body();
    if (!at_end()) fail("the tag " + tokens_[at_ + 1].text + " in this place");
    return statements;
  }

 private:
  /// Counts the nesting while it is alive.
  class Nested {
   public:
    explicit Nested(size_t& depth) : depth_(depth) {
      if (++depth_ > kNestingMax) fail("so deep nesting");
    }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    size_t& depth_;
  };

  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }

  bool at_end() const { return at_ >= tokens_.size(); }
  const Token& peek() const {
    if (at_end()) fail("an unfinished tag");
    return tokens_[at_];
  }
  Token take() {
    const Token& token = peek();
    ++at_;
    return token;
  }
  bool is_sign(std::string_view sign) const {
    return !at_end() && peek().kind == TokenKind::kSign && peek().text == sign;
  }
  bool is_word(std::string_view word) const {
    return !at_end() && peek().kind == TokenKind::kName && peek().text == word;
  }
  bool skip_sign(std::string_view sign) {
    if (!is_sign(sign)) return false;
    ++at_;
    return true;
  }
  bool skip_word(std::string_view word) {
    if (!is_word(word)) return false;
    ++at_;
    return true;
  }
  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail("'" + peek().text + "' instead of '" + std::string(sign) + "'");
  }
  std::string name() {
    if (peek().kind != TokenKind::kName) fail("'" + peek().text + "' instead of a name");
    return take().text;
  }
  void close() {
    if (peek().kind != TokenKind::kClose) fail("'" + peek().text + "' before the end of a tag");
    ++at_;
  }
  /// Whether the next tag is {% word …
  bool is_block(std::initializer_list<std::string_view> words) const {
    return at_ + 1 < tokens_.size() && tokens_[at_].text == "{%" &&
           tokens_[at_].kind == TokenKind::kOpen &&
           std::ranges::find(words, tokens_[at_ + 1].text) != words.end();
  }

  /// Up to an {% elif, else, endif or endfor, or the end.
  std::vector<Statement> body() {
    const Nested nested(depth_);
    std::vector<Statement> statements;
    while (!at_end() && !is_block({"elif", "else", "endif", "endfor"})) {
      statements.push_back(statement());
    }
    return statements;
  }

  Statement statement() {
    operations_ = 0;
    Token token = take();
    Statement result;
    if (token.kind == TokenKind::kLiteral) {
      result.text = std::move(token.text);
      return result;
    }
    if (token.text == "{{") {
      result.kind = StatementKind::kOutput;
      result.expression = expression();
      close();
      return result;
    }
    const std::string word = name();
    if (word == "set") return set();
    if (word == "if") return condition();
    if (word == "for") return loop();
    fail("{% " + word + " %}");
  }

  Statement set() {
    Statement result{.kind = StatementKind::kSet, .text = name()};
    if (!is_sign("=")) fail("{% set %} without '='");
    ++at_;
    result.expression = expression();
    close();
    return result;
  }

  Statement condition() {
    Statement result{.kind = StatementKind::kIf};
    for (bool more = true; more;) {
      result.conditions.push_back(expression());
      close();
      result.branches.push_back(body());
      more = is_block({"elif"});
      if (more) at_ += 2;
    }
    if (is_block({"else"})) {
      at_ += 2;
      close();
      result.branches.push_back(body());
    }
    end_block("endif");
    return result;
  }

  Statement loop() {
    Statement result{.kind = StatementKind::kFor, .text = name()};
    if (!skip_word("in")) fail("{% for %} with several names");
    result.expression = expression();
    close();
    result.branches.push_back(body());
    end_block("endfor");
    return result;
  }

  void end_block(std::string_view word) {
    if (!is_block({word})) fail("a block without {% " + std::string(word) + " %}");
    at_ += 2;
    close();
  }

  // Expressions, from what binds least.
  Expression expression() {
    const Nested nested(depth_);
    Expression value = disjunction();
    if (!skip_word("if")) return value;
    Expression result{.kind = ExpressionKind::kConditional};
    result.operands.push_back(std::move(value));
    result.operands.push_back(disjunction());
    if (skip_word("else")) result.operands.push_back(expression());
    return result;
  }

  /// Bounds how deep a tree of expressions can be that nests without brackets.
  void count_operation() {
    if (++operations_ > kOperationsMax) fail("so many operations");
  }

  Expression binary(std::string word, Expression left, Expression right) {
    count_operation();
    Expression result{.kind = ExpressionKind::kBinary, .text = std::move(word)};
    result.operands.push_back(std::move(left));
    result.operands.push_back(std::move(right));
    return result;
  }
  static Expression negation(Expression operand) {
    Expression result{.kind = ExpressionKind::kNot};
    result.operands.push_back(std::move(operand));
    return result;
  }

  Expression disjunction() {
    Expression value = conjunction();
    while (skip_word("or")) value = binary("or", std::move(value), conjunction());
    return value;
  }
  Expression conjunction() {
    Expression value = inversion();
    while (skip_word("and")) value = binary("and", std::move(value), inversion());
    return value;
  }
  Expression inversion() {
    const Nested nested(depth_);
    return skip_word("not") ? negation(inversion()) : comparison();
  }
  Expression comparison() {
    Expression value = sum();
    for (;;) {
      if (skip_sign("==")) {
        value = binary("==", std::move(value), sum());
      } else if (skip_sign("!=")) {
        value = binary("!=", std::move(value), sum());
      } else if (skip_word("in")) {
        value = binary("in", std::move(value), sum());
      } else if (is_word("not") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == "in") {
        at_ += 2;
        value = negation(binary("in", std::move(value), sum()));
      } else {
        return value;
      }
    }
  }
  Expression sum() {
    Expression value = concatenation();
    while (skip_sign("+")) value = binary("+", std::move(value), concatenation());
    return value;
  }
  Expression concatenation() {
    Expression value = postfix();
    while (skip_sign("~")) value = binary("~", std::move(value), postfix());
    return value;
  }

  Expression postfix() {
    Expression value = primary();
    for (;;) {
      Expression result;
      if (skip_sign(".")) {
        result = {.kind = ExpressionKind::kAttribute, .text = name()};
        result.operands.push_back(std::move(value));
      } else if (skip_sign("[")) {
        result = subscript(std::move(value));
      } else if (skip_sign("(")) {
        result.kind = ExpressionKind::kCall;
        result.operands.push_back(std::move(value));
        result.keywords.emplace_back();
        arguments(result);
      } else if (skip_sign("|")) {
        result = {.kind = ExpressionKind::kFilter, .text = name()};
        result.operands.push_back(std::move(value));
        result.keywords.emplace_back();
        if (skip_sign("(")) arguments(result);
      } else if (skip_word("is")) {
        const bool negated = skip_word("not");
        result = {.kind = ExpressionKind::kTest, .text = name()};
        result.operands.push_back(std::move(value));
        if (negated) result = negation(std::move(result));
      } else {
        return value;
      }
      value = std::move(result);
      count_operation();
    }
  }

  Expression subscript(Expression of) {
    Expression result;
    result.operands.push_back(std::move(of));
    const bool negative = skip_sign("-");
    const Token key = take();
    if (key.kind == TokenKind::kString && !negative) {
      result.kind = ExpressionKind::kAttribute;
      result.text = key.text;
    } else if (key.kind == TokenKind::kNumber) {
      result.kind = ExpressionKind::kIndex;
      result.number = negative ? -number(key.text) : number(key.text);
    } else {
      fail("the subscript [" + key.text + "…]");
    }
    expect_sign("]");
    return result;
  }

  void arguments(Expression& call) {
    while (!skip_sign(")")) {
      std::string keyword;
      if (peek().kind == TokenKind::kName && at_ + 1 < tokens_.size() &&
          tokens_[at_ + 1].kind == TokenKind::kSign && tokens_[at_ + 1].text == "=") {
        keyword = take().text;
        ++at_;
      }
      call.operands.push_back(expression());
      call.keywords.push_back(std::move(keyword));
      if (!is_sign(")")) expect_sign(",");
    }
  }

  static int64_t number(const std::string& text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("the number " + text);
    return value;
  }

  Expression primary() {
    const Token token = take();
    switch (token.kind) {
      case TokenKind::kString:
        return {.kind = ExpressionKind::kText, .text = token.text};
      case TokenKind::kNumber:
        return {.kind = ExpressionKind::kNumber, .number = number(token.text)};
      case TokenKind::kName:
        return {.kind = ExpressionKind::kName, .text = token.text};
      default:
        break;
    }
    if (token.kind != TokenKind::kSign || token.text != "(") fail("'" + token.text + "'");
    Expression value = expression();
    expect_sign(")");
    return value;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t depth_ = 0;
  size_t operations_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::string_view source) {
  if (source.size() > kTemplateBytesMax) throw std::runtime_error("so long a template");
  return Parser(tokenize(source)).run();
}

}  // namespace espalier::text::jinja
