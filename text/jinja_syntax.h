// The part of jinja's language that score templates are written in, parsed: output, set, if and
// for; names, strings, numbers, attributes, filters, tests and the usual operators. Anything else
// is an error that names it.
//
// White space is handled as Hugging Face's templates are rendered: trim_blocks, lstrip_blocks, "-"
// and "+" in tags, one line break at the end dropped.
//
// Thread contract: plain values and pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::text::jinja {

enum class ExpressionKind : uint8_t {
  kText,         // text: the string
  kNumber,       // number
  kName,         // text: of a variable, or true, false, none
  kAttribute,    // operands[0].text, or operands[0]["text"]
  kIndex,        // operands[0][number]
  kCall,         // operands[0](operands[1…])
  kFilter,       // operands[0] | text(operands[1…])
  kTest,         // operands[0] is text
  kNot,          // not operands[0]
  kBinary,       // operands[0] text operands[1]: and, or, ==, !=, +, ~, in
  kConditional,  // operands[0] if operands[1] else operands[2]; the last may be missing
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kText;
  std::string text = {};
  int64_t number = 0;
  std::vector<Expression> operands = {};
  std::vector<std::string> keywords = {};  // by operand of a call or filter: "" or its name
};

enum class StatementKind : uint8_t {
  kLiteral,  // text
  kOutput,   // expression
  kSet,      // text = expression
  kIf,       // branches[i] where conditions[i] holds; one branch more is the else
  kFor,      // text: the variable; expression: over what; branches[0]: the body
};

struct Statement {
  StatementKind kind = StatementKind::kLiteral;
  std::string text = {};
  Expression expression = {};
  std::vector<Expression> conditions = {};
  std::vector<std::vector<Statement>> branches = {};
};

/// At most so many bytes of a template are looked at, and so deep nesting.
inline constexpr size_t kTemplateBytesMax = size_t{1} << 18U;
inline constexpr size_t kNestingMax = 64;

/// Throws std::runtime_error saying what is not understood.
std::vector<Statement> parse(std::string_view source);

}  // namespace espalier::text::jinja
