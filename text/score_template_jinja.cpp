#include "text/score_template_jinja.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "text/jinja_syntax.h"
#include "text/utf8.h"
#include "text/white_space.h"

namespace espalier::text {
namespace {

using jinja::Expression;
using jinja::ExpressionKind;
using jinja::Statement;
using jinja::StatementKind;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

constexpr size_t kStepsMax = 100'000;              // expressions and statements that are run
constexpr size_t kRenderedMax = size_t{1} << 18U;  // bytes of literal text of one value
constexpr size_t kPartsMax = 256;                  // of one value
constexpr size_t kWorkMax = size_t{1} << 26U;      // bytes of all values that are made
constexpr size_t kMessageBytesMax = 200;           // what is told of a template's error

/// A value while the template runs. Texts are parts: literal ones and marks.
struct Value {
  enum class Kind : uint8_t { kUndefined, kNone, kBoolean, kNumber, kText, kList, kMessage };
  Kind kind = Kind::kUndefined;
  int64_t number = 0;     // or whether, of booleans
  RerankParts text = {};  // of messages their content
  std::string role = {};  // of messages
  std::vector<Value> entries = {};

  static Value boolean(bool value) { return {.kind = Kind::kBoolean, .number = value ? 1 : 0}; }
  static Value of_text(RerankParts parts) {
    return {.kind = Kind::kText, .text = std::move(parts)};
  }
  static Value literal(std::string text) {
    return of_text(text.empty() ? RerankParts{} : RerankParts{std::move(text)});
  }
  static Value message(std::string role, RerankField field) {
    return {.kind = Kind::kMessage, .text = {RerankPlace{field}}, .role = std::move(role)};
  }
  bool is(Kind other) const { return kind == other; }
};
using Kind = Value::Kind;

bool truth(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBoolean:
    case Kind::kNumber:
      return value.number != 0;
    case Kind::kText:
      return !value.text.empty();  // what a request sends is taken as something
    case Kind::kList:
      return !value.entries.empty();
    case Kind::kMessage:
      break;
  }
  return true;
}

/// The text of a value that no request has a part in.
std::string fixed_text(const Value& value, const char* what) {
  std::string text;
  if (!value.is(Kind::kText)) fail(std::string(what) + " something that is no text");
  for (const RerankPart& part : value.text) {
    const auto* const literal = std::get_if<std::string>(&part);
    if (literal == nullptr) fail(std::string(what) + " the texts of a request");
    text += *literal;
  }
  return text;
}

size_t bytes_of(const RerankParts& parts) {
  size_t bytes = 0;
  for (const RerankPart& part : parts) {
    const auto* const literal = std::get_if<std::string>(&part);
    bytes += sizeof(part) + (literal != nullptr ? literal->size() : 0);
  }
  return bytes;
}

size_t bytes_of(const Value& value) {
  size_t bytes = sizeof(value) + bytes_of(value.text) + value.role.size();
  for (const Value& entry : value.entries) bytes += bytes_of(entry);
  return bytes;
}

void append(const RerankParts& more, RerankParts& text) {
  for (const RerankPart& part : more) {
    const auto* const literal = std::get_if<std::string>(&part);
    auto* const last = text.empty() ? nullptr : std::get_if<std::string>(&text.back());
    if (literal != nullptr && last != nullptr) {
      *last += *literal;
    } else {
      text.push_back(part);
    }
  }
  if (text.size() > kPartsMax || bytes_of(text) > kRenderedMax) fail("so long a text");
}

/// As it would be put out.
RerankParts shown(const Value& value) {
  if (value.is(Kind::kText)) return value.text;
  if (value.is(Kind::kNumber)) return {std::to_string(value.number)};
  if (value.is(Kind::kUndefined)) return {};
  fail("showing something that is no text");
}

RerankParts trimmed(RerankParts text) {
  if (text.empty()) return text;
  const auto trim_end = [](RerankPart& part, const auto& trim_literal, bool alone) {
    if (auto* const place = std::get_if<RerankPlace>(&part)) {
      if (!alone) fail("trimming a text of several parts");
      place->trimmed = true;
      return;
    }
    auto& literal = std::get<std::string>(part);
    literal = std::string(trim_literal(literal));
    if (literal.empty() && !alone) fail("trimming a text of several parts");
  };
  const bool alone = text.size() == 1;
  trim_end(text.front(), trim_left, alone);
  trim_end(text.back(), trim_right, alone);
  if (text == RerankParts{std::string()}) text.clear();
  return text;
}

bool equal(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kBoolean:
    case Kind::kNumber:
      return a.number == b.number;
    case Kind::kText:
      return fixed_text(a, "comparing") == fixed_text(b, "comparing");
    default:
      fail("comparing lists or messages");
  }
}

/// How a request's instruction is handed to the template.
enum class Instruction : uint8_t { kNone, kVariable, kMessageAndVariable };

class Run {
 public:
  explicit Run(Instruction instruction) {
    Value messages{.kind = Kind::kList};
    if (instruction == Instruction::kMessageAndVariable) {
      messages.entries.push_back(Value::message("system", RerankField::kInstruction));
    }
    if (instruction != Instruction::kNone) {
      variables_["instruction"] = Value::of_text({RerankPlace{RerankField::kInstruction}});
    }
    messages.entries.push_back(Value::message("query", RerankField::kQuery));
    messages.entries.push_back(Value::message("document", RerankField::kDocument));
    variables_["messages"] = std::move(messages);
    variables_["add_generation_prompt"] = Value::boolean(true);
  }

  RerankParts render(const std::vector<Statement>& statements) {
    run(statements);
    return std::move(output_);
  }

 private:
  void count_step() {
    if (++steps_ > kStepsMax) fail("so many steps");
  }

  /// What is made costs time and memory.
  void count_work(size_t bytes) {
    work_ += bytes;
    if (work_ > kWorkMax) fail("so much work");
  }

  void run(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      count_step();
      switch (statement.kind) {
        case StatementKind::kLiteral:
          append({statement.text}, output_);
          break;
        case StatementKind::kOutput:
          append(shown(value_of(statement.expression)), output_);
          break;
        case StatementKind::kSet:
          // What a loop sets is gone behind it.
          (locals_ != nullptr ? *locals_ : variables_)[statement.text] =
              value_of(statement.expression);
          break;
        case StatementKind::kIf:
          run_condition(statement);
          break;
        case StatementKind::kFor:
          run_loop(statement);
          break;
      }
    }
  }

  void run_condition(const Statement& statement) {
    for (size_t i = 0; i < statement.branches.size(); ++i) {
      if (i >= statement.conditions.size() || truth(value_of(statement.conditions[i]))) {
        return run(statement.branches[i]);
      }
    }
  }

  void run_loop(const Statement& statement) {
    const Value over = value_of(statement.expression);
    if (!over.is(Kind::kList)) fail("{% for %} over something that is no list");
    for (const Value& entry : over.entries) {
      std::map<std::string, Value> locals = locals_ != nullptr ? *locals_ : variables_;
      for (const auto& [name, value] : locals) count_work(name.size() + bytes_of(value));
      locals[statement.text] = entry;
      auto* const outer = std::exchange(locals_, &locals);
      run(statement.branches.front());
      locals_ = outer;
    }
  }

  Value value_of(const Expression& e) {
    count_step();
    Value value = evaluated(e);
    count_work(bytes_of(value));
    return value;
  }

  Value evaluated(const Expression& e) {
    switch (e.kind) {
      case ExpressionKind::kText:
        return Value::literal(e.text);
      case ExpressionKind::kNumber:
        return {.kind = Kind::kNumber, .number = e.number};
      case ExpressionKind::kName:
        return variable(e.text);
      case ExpressionKind::kAttribute:
        return attribute(value_of(e.operands[0]), e.text);
      case ExpressionKind::kIndex:
        return entry(value_of(e.operands[0]), e.number);
      case ExpressionKind::kCall:
        return call(e);
      case ExpressionKind::kFilter:
        return filter(e);
      case ExpressionKind::kTest:
        return Value::boolean(test(value_of(e.operands[0]), e.text));
      case ExpressionKind::kNot:
        return Value::boolean(!truth(value_of(e.operands[0])));
      case ExpressionKind::kBinary:
        return binary(e);
      case ExpressionKind::kConditional:
        if (truth(value_of(e.operands[1]))) return value_of(e.operands[0]);
        return e.operands.size() > 2 ? value_of(e.operands[2]) : Value{};
    }
    return {};
  }

  Value variable(const std::string& name) const {
    if (name == "true" || name == "True") return Value::boolean(true);
    if (name == "false" || name == "False") return Value::boolean(false);
    if (name == "none" || name == "None") return {.kind = Kind::kNone};
    if (name.ends_with("_token")) fail("the variable " + name);  // the tokenizer's
    const auto& known = locals_ != nullptr ? *locals_ : variables_;
    const auto found = known.find(name);
    return found != known.end() ? found->second : Value{};
  }

  static Value attribute(const Value& value, const std::string& name) {
    if (value.is(Kind::kMessage)) {
      if (name == "role") return Value::literal(value.role);
      return name == "content" ? Value::of_text(value.text) : Value{};
    }
    fail("the attribute " + name + " of something that is no message");
  }

  static Value entry(const Value& value, int64_t index) {
    if (!value.is(Kind::kList)) fail("a subscript of something that is no list");
    const auto size = static_cast<int64_t>(value.entries.size());
    const int64_t at = index < 0 ? index + size : index;
    return at >= 0 && at < size ? value.entries[static_cast<size_t>(at)] : Value{};
  }

  Value call(const Expression& e) {
    const Expression& callee = e.operands[0];
    if (callee.kind == ExpressionKind::kAttribute && e.operands.size() == 1 &&
        callee.text == "strip") {
      return trim_text(value_of(callee.operands[0]));
    }
    fail("the call of " + callee.text + "()");
  }

  static Value trim_text(const Value& value) {
    if (!value.is(Kind::kText)) fail("trimming something that is no text");
    return Value::of_text(trimmed(value.text));
  }

  Value filter(const Expression& e) {
    const std::string& name = e.text;
    const size_t arguments = e.operands.size() - 1;
    const Value value = value_of(e.operands[0]);
    if (name == "default" || name == "d") return with_default(value, e);
    if (name == "selectattr") return selected(value, e);
    if (name == "map") return mapped(value, e);
    if (arguments > 0) fail("the filter " + name + " with arguments");
    if (name == "trim") return trim_text(value);
    if (name == "string") return Value::of_text(shown(value));
    if (name == "list" && value.is(Kind::kList)) return value;
    if (name == "first") return entry(value, 0);
    if (name == "last") return entry(value, -1);
    if ((name == "length" || name == "count") && value.is(Kind::kList)) {
      return {.kind = Kind::kNumber, .number = static_cast<int64_t>(value.entries.size())};
    }
    fail("the filter " + name);
  }

  Value with_default(const Value& value, const Expression& e) {
    const size_t operands = e.operands.size();
    if (operands < 2 || operands > 3) fail("the filter default without one or two arguments");
    const bool for_empty = operands == 3 && truth(value_of(e.operands[2]));
    const bool missing = value.is(Kind::kUndefined) || (for_empty && !truth(value));
    return missing ? value_of(e.operands[1]) : value;
  }

  Value selected(const Value& value, const Expression& e) {
    const bool understood =
        value.is(Kind::kList) && e.operands.size() == 4 &&
        std::ranges::all_of(e.keywords, [](const std::string& word) { return word.empty(); });
    if (!understood) fail("this selectattr");
    const std::string name = fixed_text(value_of(e.operands[1]), "selectattr by");
    const std::string comparison = fixed_text(value_of(e.operands[2]), "selectattr by");
    const Value wanted = value_of(e.operands[3]);
    if (comparison != "eq" && comparison != "equalto" && comparison != "==") {
      fail("selectattr with " + comparison);
    }
    Value result{.kind = Kind::kList};
    for (const Value& candidate : value.entries) {
      if (equal(attribute(candidate, name), wanted)) result.entries.push_back(candidate);
    }
    return result;
  }

  Value mapped(const Value& value, const Expression& e) {
    if (!value.is(Kind::kList) || e.operands.size() != 2 || e.keywords[1] != "attribute") {
      fail("map but for attribute=…");
    }
    const std::string name = fixed_text(value_of(e.operands[1]), "map by");
    Value result{.kind = Kind::kList};
    for (const Value& each : value.entries) result.entries.push_back(attribute(each, name));
    return result;
  }

  static bool test(const Value& value, const std::string& name) {
    if (name == "defined") return !value.is(Kind::kUndefined);
    if (name == "undefined") return value.is(Kind::kUndefined);
    if (name == "none") return value.is(Kind::kNone);
    if (name == "string") return value.is(Kind::kText);
    if (name == "mapping") return value.is(Kind::kMessage);
    if (name == "iterable" || name == "sequence") {
      return value.is(Kind::kText) || value.is(Kind::kList) || value.is(Kind::kMessage);
    }
    fail("the test `is " + name + "`");
  }

  Value binary(const Expression& e) {
    Value left = value_of(e.operands[0]);
    if (e.text == "and") return truth(left) ? value_of(e.operands[1]) : left;
    if (e.text == "or") return truth(left) ? left : value_of(e.operands[1]);
    const Value right = value_of(e.operands[1]);
    if (e.text == "==") return Value::boolean(equal(left, right));
    if (e.text == "!=") return Value::boolean(!equal(left, right));
    if (e.text == "in") {
      const std::string part = fixed_text(left, "searching");
      const std::string whole = fixed_text(right, "searching");
      constexpr size_t kComparedAtOnce = 256;
      count_work(part.size() * whole.size() / kComparedAtOnce);
      return Value::boolean(whole.find(part) != std::string::npos);
    }
    if (e.text == "+" && !(left.is(Kind::kText) && right.is(Kind::kText))) {
      fail("adding what is no text");
    }
    RerankParts text = shown(left);
    append(shown(right), text);
    return Value::of_text(std::move(text));
  }

  std::map<std::string, Value> variables_;
  std::map<std::string, Value>* locals_ = nullptr;  // in a loop: all variables there
  RerankParts output_;
  size_t steps_ = 0;
  size_t work_ = 0;
};

/// An error that may quote what the template holds, for a line of text.
std::string readable(std::string_view error) {
  std::string text = replace_invalid_utf8(error);
  if (text.size() > kMessageBytesMax) {
    size_t end = kMessageBytesMax;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text = text.substr(0, end) + "…";
  }
  std::ranges::replace_if(
      text, [](char c) { return (c >= 0 && c < ' ') || c == '\x7F'; }, ' ');
  return text;
}

/// The form of the template with an instruction, if there is one: templates may refuse messages of
/// other roles, or find theirs by number.
std::optional<RerankParts> instructed_form(const std::vector<Statement>& statements) {
  for (const Instruction way : {Instruction::kMessageAndVariable, Instruction::kVariable}) {
    try {
      RerankTemplate form;
      form.plain = Run(Instruction::kNone).render(statements);
      form.instructed = Run(way).render(statements);
      check_template(form);
      return std::move(form.instructed);
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_score_template(std::string_view source) {
  const auto speaks_of = [&](const std::string& role) {
    return source.find('"' + role + '"') != std::string_view::npos ||
           source.find('\'' + role + '\'') != std::string_view::npos;
  };
  return speaks_of("query") && speaks_of("document");
}

RerankTemplate parse_score_template(std::string_view source, std::string name) {
  RerankTemplate rerank;
  try {
    const std::vector<Statement> statements = jinja::parse(source);
    rerank.plain = Run(Instruction::kNone).render(statements);
    rerank.instructed = instructed_form(statements);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("the rerank template " + name + " has " + readable(error.what()) +
                             ", which is not understood");
  }
  rerank.name = std::move(name);
  check_template(rerank);
  return rerank;
}

}  // namespace espalier::text
