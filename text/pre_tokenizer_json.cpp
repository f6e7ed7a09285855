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

SplitPattern read_split(const JsonField& split) {
  const JsonField behavior = split.at("behavior");
  if (behavior.as_string() != "Isolated") {
    behavior.refuse(in_quotes(behavior.as_string()) + " is not supported (Isolated is)");
  }
  // Without effect while matches and what lies between them are treated alike, which is what
  // Isolated does; read it for its type.
  (void)split.bool_or("invert", false);
  return read_pattern(split.at("pattern"));
}

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonField& pre_tokenizer) {
  PreTokenizer result;
  bool byte_level = false;
  for (const JsonField& component : flatten_sequence(pre_tokenizer, "pretokenizers")) {
    const std::string type = component.string_at("type");
    if (byte_level) component.refuse("nothing may follow ByteLevel");
    if (type == "Split") {
      if (result.splits.size() == kSplitsMax) component.refuse("too many Splits");
      result.splits.push_back(read_split(component));
    } else if (type == "ByteLevel") {
      byte_level = true;
      result.add_prefix_space = component.bool_or("add_prefix_space", true);
      if (component.bool_or("use_regex", true)) {
        result.byte_level_split = SplitPattern::regex(PreTokenizer::kByteLevelPattern);
      }
    } else {
      component.refuse("the pre-tokenizer " + in_quotes(type) +
                       " is not supported (Split and ByteLevel are)");
    }
  }
  if (!byte_level) pre_tokenizer.refuse("has no ByteLevel; only byte-level BPE is supported");
  return result;
}

}  // namespace espalier::text
