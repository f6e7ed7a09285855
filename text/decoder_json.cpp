#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/tokenizer_components.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

constexpr size_t kStepsMax = 16;

/// A longer one could make a text many times as large.
constexpr size_t kContentBytesMax = 16;

ReplaceDecoder read_replace(const JsonField& component) {
  const JsonField pattern = component.at("pattern");
  if (pattern.find("Regex")) pattern.refuse("a Regex is not supported here (String is)");
  ReplaceDecoder step{pattern.string_at("String"), component.string_at("content")};
  if (step.pattern.empty()) pattern.refuse("is empty");
  if (step.content.size() > kContentBytesMax) {
    component.refuse("content has more than " + std::to_string(kContentBytesMax) + " bytes");
  }
  return step;
}

size_t read_count(const JsonField& field) {
  if (!field.value().is_number_unsigned()) field.refuse("expected a count");
  return field.value().get<size_t>();
}

Decoder::Step read_step(const JsonField& component) {
  const std::string type = component.string_at("type");
  if (type == "Replace") return read_replace(component);
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "Strip") {
    return StripDecoder{component.at("content").as_character(), read_count(component.at("start")),
                        read_count(component.at("stop"))};
  }
  if (type == "Metaspace") {
    const Metaspace metaspace = read_metaspace(component);
    return MetaspaceDecoder{metaspace.mark, metaspace.prepend != Metaspace::Prepend::kNever};
  }
  component.refuse("the decoder " + in_quotes(type) +
                   " is not supported (Replace, ByteFallback, Fuse, Strip and Metaspace are)");
}

}  // namespace

Decoder read_decoder(const JsonField& decoder) {
  std::vector<Decoder::Step> steps;
  for (const JsonField& component : flatten_sequence(decoder, "decoders")) {
    if (steps.size() == kStepsMax) component.refuse("too many decoders");
    steps.push_back(read_step(component));
  }
  // An empty Sequence joins; no decoder at all puts spaces between.
  if (steps.empty()) steps.emplace_back(FuseDecoder{});
  return Decoder(std::move(steps));
}

}  // namespace espalier::text
