#include <nlohmann/json.hpp>
#include <utility>

#include "text/tokenizer_components.h"

namespace espalier::text {
namespace {

/// Each step costs a pass over the text; published files have one to three.
constexpr size_t kStepsMax = 16;

/// Longer ones could make a text many times as large.
constexpr size_t kContentBytesMax = 16;

std::string read_content(const JsonField& field) {
  std::string content = field.as_string();
  if (content.size() > kContentBytesMax) {
    field.refuse("has more than " + std::to_string(kContentBytesMax) + " bytes");
  }
  return content;
}

ReplaceNormalizer read_replace(const JsonField& component) {
  const JsonField pattern = component.at("pattern");
  if (pattern.find("Regex")) pattern.refuse("a Regex is not supported here (String is)");
  ReplaceNormalizer step{pattern.string_at("String"), read_content(component.at("content"))};
  if (step.pattern.empty()) pattern.refuse("is empty");
  if (step.content.empty()) {
    component.refuse("a content that is empty, which deletes text, is not supported");
  }
  return step;
}

}  // namespace

Normalizer read_normalizer(const JsonField& normalizer) {
  std::vector<Normalizer::Step> steps;
  bool composed = false;  // a second NFC changes nothing unless something lies between them
  for (const JsonField& component : flatten_sequence(normalizer, "normalizers")) {
    const std::string type = component.string_at("type");
    if (steps.size() == kStepsMax) component.refuse("too many normalizers");
    if (type == "NFC") {
      if (!std::exchange(composed, true)) steps.emplace_back(UnicodeNormalizer());
      continue;
    }
    composed = false;
    if (type == "Prepend") {
      steps.emplace_back(PrependNormalizer{read_content(component.at("prepend"))});
    } else if (type == "Replace") {
      steps.emplace_back(read_replace(component));
    } else {
      component.refuse("the normalizer " + in_quotes(type) +
                       " is not supported (NFC, Prepend and Replace are)");
    }
  }
  return Normalizer(std::move(steps));
}

}  // namespace espalier::text
