#include "text/score_template_jinja.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>

namespace espalier::text {
namespace {

using testing::HasSubstr;

/// The parts with their places spelled out: "{query}", trimmed "{query|trim}".
std::string spelled(const RerankParts& parts) {
  std::string text;
  for (const RerankPart& part : parts) {
    if (const auto* const literal = std::get_if<std::string>(&part)) {
      text += *literal;
    } else {
      const auto& place = std::get<RerankPlace>(part);
      const char* const names[] = {"instruction", "query", "document"};
      text += std::string("{") + names[static_cast<size_t>(place.field)] +
              (place.trimmed ? "|trim}" : "}");
    }
  }
  return text;
}

std::string plain(std::string_view source) {
  return spelled(parse_score_template(source, "test").plain);
}
std::string instructed(std::string_view source) {
  const RerankTemplate parsed = parse_score_template(source, "test");
  return parsed.instructed ? spelled(*parsed.instructed) : "takes none";
}
std::string error_of(std::string_view source) {
  try {
    parse_score_template(source, "test");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

constexpr std::string_view kQuery =
    R"({{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }})";
constexpr std::string_view kDocument =
    R"({{ (messages | selectattr('role', 'eq', 'document') | first).content }})";

/// With a query and a document behind it, to be complete.
std::string completed(std::string_view source) {
  return std::string(source) + std::string(kQuery) + std::string(kDocument);
}
/// What `source` renders to.
std::string rendered(std::string_view source) {
  const std::string text = plain(completed(source));
  return text.substr(0, text.size() - std::string_view("{query}{document}").size());
}

TEST(ScoreTemplateJinja, ReadsTheLookupsThatTemplatesUse) {
  EXPECT_EQ(plain("A: " + std::string(kQuery) + "\nB: " + std::string(kDocument) + " end\n"),
            "A: {query}\nB: {document} end");
  EXPECT_EQ(plain(R"({{ messages[0]["content"] }}/{{ messages[-1].content }})"),
            "{query}/{document}");
  // A message more would shift those that are found by number.
  EXPECT_EQ(instructed(R"({{ messages[0]["content"] }}/{{ messages[1].content }})"), "takes none");
}

TEST(ScoreTemplateJinja, ReadsAnInstructionInTheSystemsMessageOrAsAVariable) {
  const std::string by_role = completed(
      R"({{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("Find") }}: )");
  EXPECT_EQ(plain(by_role), "Find: {query}{document}");
  EXPECT_EQ(instructed(by_role), "{instruction}: {query}{document}");
  const std::string by_name =
      completed("{% if instruction is defined %}I: {{ instruction }}\n{% endif %}");
  EXPECT_EQ(plain(by_name), "{query}{document}");
  EXPECT_EQ(instructed(by_name), "I: {instruction}\n{query}{document}");
  const std::string by_both = completed(
      R"({{ instruction | default(messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("Find", true), true) }}: )");
  EXPECT_EQ(plain(by_both), "Find: {query}{document}");
  EXPECT_EQ(instructed(by_both), "{instruction}: {query}{document}");
  EXPECT_EQ(instructed(completed("")), "takes none");
}

TEST(ScoreTemplateJinja, ReadsVariablesAndTurns) {
  const char* const source = R"({#- A comment. -#}
{%- set q = messages | selectattr("role", "eq", "query") | map(attribute="content") | list -%}
{%- set d = messages | selectattr("role", "eq", "document") | map(attribute="content") | list -%}
{%- set q = q[0] if q else '' -%}
{%- if instruction is defined and instruction is string and instruction | trim -%}
{%- set q = '<q>' + q + '</q>\n<i>' + instruction + '</i>' -%}
{%- endif -%}
{{- '<|im_start|>system\n' + q + '<|im_end|>\n' -}}
{{- '<|im_start|>user\n' ~ (d[0] if d else '') ~ '<|im_end|>\n' -}}
{{- '<|im_start|>assistant\n' -}}
)";
  EXPECT_EQ(plain(source),
            "<|im_start|>system\n{query}<|im_end|>\n<|im_start|>user\n{document}<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(instructed(source),
            "<|im_start|>system\n<q>{query}</q>\n<i>{instruction}</i><|im_end|>\n"
            "<|im_start|>user\n{document}<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ScoreTemplateJinja, GoesThroughTheMessages) {
  const char* const source = R"({%- for message in messages %}
    {%- if message.role == 'query' %}
        {{- '<|im_start|>system\n' + message.content.strip() + '<|im_end|>\n' }}
    {%- elif message['role'] == 'document' %}
        {{- '<|im_start|>user\n' + message['content'] | trim + '<|im_end|>\n' }}
    {%- else %}
        {{- raise_exception('no such role') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})";
  EXPECT_EQ(plain(source),
            "<|im_start|>system\n{query|trim}<|im_end|>\n<|im_start|>user\n{document|trim}"
            "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(instructed(source), "takes none");  // it raises an exception
}

TEST(ScoreTemplateJinja, WhiteSpaceAroundTagsIsHuggingFaces) {
  EXPECT_EQ(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc"), "a\nb\nc");
  EXPECT_EQ(rendered("a {% if true %} b {% endif %}\nc"), "a  b c");
  EXPECT_EQ(rendered("a \n {%- if true -%} \n b {%- endif %} c"), "ab c");
  EXPECT_EQ(rendered("a\n  {{ 'b' }}\nc"), "a\n  b\nc");
  EXPECT_EQ(rendered("a\n  {# b #}\nc"), "a\nc");
  EXPECT_EQ(rendered("a\n  {%+ if true %}b{% endif %}"), "a\n  b");
  EXPECT_EQ(rendered("a{% if true +%}\nb{% endif %}"), "a\nb");
  EXPECT_EQ(rendered("  {% if true %}x{% endif %}"), "x");
  EXPECT_EQ(rendered("a\r\n{% if true %}\r\nb{% endif %}"), "a\nb");
}

TEST(ScoreTemplateJinja, ExpressionsAreJinjas) {
  EXPECT_EQ(rendered("{{ 'a' if false else 'b' }}{{ 'c' if false }}"), "b");
  EXPECT_EQ(rendered("{{ 'a\\n\\t\\'\\\\' }}{{ \"'\" }}"), "a\n\t'\\'");
  EXPECT_EQ(rendered("{{ '' or 'x' }}{{ 'y' and 'z' }}{{ not_there | default('d') }}"), "xzd");
  EXPECT_EQ(rendered("{{ messages | length }}{{ 1 ~ '2' }}"), "212");
  EXPECT_EQ(rendered("{% if 'a' in 'cab' and not 'b' not in 'cab' %}y{% endif %}"), "y");
  EXPECT_EQ(rendered("{% if 'a' != 'b' and none is none and x is not defined %}y{% endif %}"), "y");
  EXPECT_EQ(rendered("{% set x = 'a' %}{% for m in messages %}{% set x = x + 'b' %}{{ x }}"
                     "{% endfor %}{{ x }}"),
            "ababa");
  EXPECT_EQ(rendered("{{ undefined_name }}"), "");
}

TEST(ScoreTemplateJinja, WhatItDoesNotUnderstandItNames) {
  EXPECT_THAT(error_of(completed("{% macro m() %}{% endmacro %}")), HasSubstr("{% macro %}"));
  EXPECT_THAT(error_of(completed("{{ 'a' | upper }}")), HasSubstr("the filter upper"));
  EXPECT_THAT(error_of(completed("{{ namespace(a=1) }}")), HasSubstr("namespace()"));
  EXPECT_THAT(error_of(completed("{{ bos_token }}")), HasSubstr("bos_token"));
  EXPECT_THAT(error_of(completed("{{ messages }}")), HasSubstr("no text"));
  EXPECT_THAT(error_of(completed("{% if messages[0].content == 'x' %}{% endif %}")),
              HasSubstr("the texts of a request"));
  EXPECT_THAT(error_of("{{ (messages[0].content + ' ' + messages[1].content) | trim }}"),
              HasSubstr("trimming a text of several parts"));
  EXPECT_THAT(error_of("query"), HasSubstr("no place for the document"));
}

TEST(ScoreTemplateJinja, BrokenOnesAreRefused) {
  for (const char* source :
       {"{{", "{{ 'a }}", "{% if true %}", "{% endif %}", "{{ }}", "{{ a b }}", "{# a", "{{ (a }}",
        "{{ a[ }}", "{{ a | }}", "{% for %}{% endfor %}", "{% set x %}",
        "{{ 99999999999999999999 }}", "{{ a. }}", "{%", "{{-", "{{ a[b] }}", "{{ '\\q' }}"}) {
    EXPECT_THAT(error_of(completed(source)), HasSubstr("is not understood")) << source;
  }
}

TEST(ScoreTemplateJinja, HostileOnesEnd) {
  const auto repeated = [](const std::string& text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string understood = "which is not understood";
  EXPECT_THAT(error_of("{{ " + repeated("(", 50'000)), HasSubstr(understood));
  EXPECT_THAT(error_of("{{ " + repeated("not ", 50'000)), HasSubstr(understood));
  EXPECT_THAT(error_of("{{ a" + repeated(".b", 50'000) + " }}"), HasSubstr(understood));
  EXPECT_THAT(error_of("{{ a" + repeated("+a", 50'000) + " }}"), HasSubstr(understood));
  EXPECT_THAT(error_of(repeated("{% if a %}", 10'000)), HasSubstr(understood));
  EXPECT_THAT(error_of("{% set a = 'aaaaaaaaaaaaaaaa' %}" + repeated("{% set a = a ~ a %}", 60)),
              HasSubstr("so long a text"));
  EXPECT_THAT(error_of(repeated("{% for a in messages %}", 30) + repeated("{% endfor %}", 30)),
              HasSubstr("so much work"));
  EXPECT_THAT(error_of("{% for a in messages %}" + repeated("{{ 1 }}", 30'000) + "{% endfor %}"),
              HasSubstr("so many steps"));
  EXPECT_THAT(error_of(std::string(1'000'000, 'a')), HasSubstr("so long a template"));
}

TEST(ScoreTemplateJinja, HostileOnesTakeLittleTimeAndMemory) {
  const auto repeated = [](const std::string& text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  // As deep as it may be.
  EXPECT_EQ(rendered("{{ 'a'" + repeated("|trim", 250) + " }}"), "a");
  EXPECT_THAT(error_of("{{ 'a'" + repeated("|trim", 300) + " }}"), HasSubstr("so many operations"));
  EXPECT_EQ(rendered(repeated("{{ 'a' ~ 'b' ~ 'c' ~ 'd' }}", 1000)).size(), 4000U);
  // A place in many copies, kept under many names, and shown again and again.
  const std::string many = "{% set a = messages[0].content %}" + repeated("{% set a = a ~ a %}", 9);
  EXPECT_THAT(error_of(many), HasSubstr("so long a text"));
  EXPECT_THAT(error_of(repeated("{{ messages[0].content }}", 1000)), HasSubstr("so long a text"));
  const std::string long_text =
      "{% set a = 'aaaaaaaaaaaaaaaa' %}" + repeated("{% set a = a ~ a %}", 13);
  std::string kept = long_text;
  for (int i = 0; i < 2000; ++i) kept += "{% set b" + std::to_string(i) + " = a %}";
  EXPECT_THAT(error_of(kept), HasSubstr("so much work"));
  EXPECT_THAT(
      error_of(long_text + repeated("{% for m in messages %}", 10) + repeated("{% endfor %}", 10)),
      HasSubstr("so much work"));
  EXPECT_THAT(error_of(long_text + repeated("{% set c = (a ~ 'b') in a %}", 1000)),
              HasSubstr("so much work"));
}

TEST(ScoreTemplateJinja, AnErrorQuotesTheTemplateReadably) {
  const std::string error =
      error_of(std::string("{{ a \n\x1b[2J\xFF") + std::string(100'000, 'x') + " }}");
  EXPECT_LT(error.size(), 400U);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  const std::string filter = error_of("{{ 'a' | " + std::string(100'000, 'f') + " }}");
  EXPECT_LT(filter.size(), 400U);
  EXPECT_THAT(filter, HasSubstr("which is not understood"));
}

TEST(ScoreTemplateJinja, ChatTemplatesAreNone) {
  EXPECT_FALSE(is_score_template("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_TRUE(is_score_template(completed("")));
}

}  // namespace
}  // namespace espalier::text
