// Texts and token ids of a body.
//
// Thread contract: functions without state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/service/inference_service.h"

namespace espalier::server {

/// What the member `field` of `object` holds: a string, an array of strings, an array of token ids
/// or an array of such arrays, none of them empty.
struct ParsedInputs {
  std::vector<EmbeddingInput> inputs;
  bool single = false;  // a string or one array of token ids
};
Result<ParsedInputs> parse_inputs(const nlohmann::json& object, const std::string& field);

/// The error of an input, called `param`, that is empty: `message` says what it is.
ApiError empty_input(std::string param, const std::string& message);

/// A string, which may be empty; it must be there.
Result<std::string> parse_text(const nlohmann::json& object, const std::string& field);

/// An array of strings or of {"text": string}, with one at least; with `or_one` also a string.
struct ParsedTexts {
  std::vector<std::string> texts;
  bool single = false;  // it was one string
};
Result<ParsedTexts> parse_texts(const nlohmann::json& object, const std::string& field,
                                bool or_one = false);

}  // namespace espalier::server
