#include <nlohmann/json.hpp>
#include <stdexcept>

#include "text/tokenizer_components.h"

namespace espalier::text {
namespace {

/// Each split costs a pass over the text; published files have one to three.
constexpr size_t kSplitsMax = 16;

SplitPattern read_pattern(const JsonField& pattern) {
  const auto regex = pattern.find("Regex");
  try {
    if (regex) return SplitPattern::regex(regex->as_string());
    return SplitPattern::literal(pattern.string_at("String"));
  } catch (const std::invalid_argument& error) {
    pattern.refuse(error.what());
  }
}

Split::Behavior read_behavior(const JsonField& behavior) {
  const std::string name = behavior.as_string();
  if (name == "Isolated") return Split::Behavior::kIsolated;
  if (name == "Contiguous") return Split::Behavior::kContiguous;
  if (name == "MergedWithPrevious") return Split::Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Split::Behavior::kMergedWithNext;
  behavior.refuse(
      in_quotes(name) +
      " is not supported (Isolated, Contiguous, MergedWithPrevious and MergedWithNext are)");
}

Split read_split(const JsonField& split) {
  const Split::Behavior behavior = read_behavior(split.at("behavior"));
  return Split(read_pattern(split.at("pattern")), behavior, split.bool_or("invert", false));
}

Metaspace::Prepend read_prepend_scheme(const JsonField& metaspace) {
  const auto scheme = metaspace.find("prepend_scheme");
  // Older files have this instead.
  const auto prefix_space = metaspace.find("add_prefix_space");
  const bool no_prefix = prefix_space && !prefix_space->as_bool();
  const std::string name = scheme ? scheme->as_string() : no_prefix ? "never" : "always";
  if (no_prefix && name != "never") {
    prefix_space->refuse("false does not agree with prepend_scheme " + in_quotes(name));
  }
  if (name == "always") return Metaspace::Prepend::kAlways;
  if (name == "first") return Metaspace::Prepend::kFirst;
  if (name == "never") return Metaspace::Prepend::kNever;
  scheme->refuse(in_quotes(name) + " is not supported (always, first and never are)");
}

}  // namespace

Metaspace read_metaspace(const JsonField& metaspace) {
  Metaspace result;
  result.mark = metaspace.at("replacement").as_character();
  result.prepend = read_prepend_scheme(metaspace);
  result.split = metaspace.bool_or("split", true);
  return result;
}

PreTokenizerAndLevel read_pre_tokenizer(const JsonField& pre_tokenizer) {
  PreTokenizerAndLevel result;
  auto& [words, byte_level] = result;
  for (const JsonField& component : flatten_sequence(pre_tokenizer, "pretokenizers")) {
    const std::string type = component.string_at("type");
    if (byte_level) component.refuse("nothing may follow ByteLevel");
    if (words.metaspace || (type == "Metaspace" && !words.splits.empty())) {
      component.refuse("Metaspace together with other pre-tokenizers is not supported");
    }
    if (type == "Split") {
      if (words.splits.size() == kSplitsMax) component.refuse("too many Splits");
      words.splits.push_back(read_split(component));
    } else if (type == "Metaspace") {
      words.metaspace = read_metaspace(component);
      if (words.metaspace->split) words.marked_words = MarkedWords{words.metaspace->mark, true};
    } else if (type == "ByteLevel") {
      byte_level = true;
      words.add_prefix_space = component.bool_or("add_prefix_space", true);
      if (component.bool_or("use_regex", true)) {
        words.byte_level_split = SplitPattern::regex(PreTokenizer::kByteLevelPattern);
      }
    } else {
      component.refuse("the pre-tokenizer " + in_quotes(type) +
                       " is not supported (Split, ByteLevel and Metaspace are)");
    }
  }
  return result;
}

}  // namespace espalier::text
