// What a request says of how its texts become token ids; the same on all routes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace espalier::server {

/// What texts are for: chooses one of the model's prompts.
enum class InputType : uint8_t { kQuery, kDocument, kClassification, kClustering };

/// What becomes of an input that is too long.
enum class Truncation : uint8_t {
  kRefuse,    // an error
  kCutEnd,    // its end is cut off
  kCutStart,  // its start is cut off, prompts stay
};

/// At most one of prompt_name, instruction and input_type, but for an instruction with kQuery.
struct InputOptions {
  std::optional<std::string> prompt_name;
  std::optional<std::string> instruction;
  std::optional<InputType> input_type;
  Truncation truncation = Truncation::kCutEnd;
  std::optional<size_t> tokens_max;  // of one input, if that is less than the model takes
  const char* tokens_max_field = "truncate_prompt_tokens";  // that holds it: errors name it
  bool add_special_tokens = true;  // those that the tokenizer adds to a text
};

}  // namespace espalier::server
