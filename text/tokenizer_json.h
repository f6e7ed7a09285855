// Reading and validating a `tokenizer.json`: what it asks for, or a refusal that names file, key
// and reason.
//
// What would change ids and is not supported is refused. Two keys that would are read over on
// purpose: `truncation` and `padding` are settings that the library saves with the file and that
// `transformers` overrides on every call; Espalier cuts texts by its own limits and pads nothing.
//
// Thread contract: pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace espalier::text {

/// Throws std::runtime_error.
TokenizerSpec read_tokenizer_json(const std::filesystem::path& path);

/// The same from the bytes of a file; `name` stands for it in messages.
TokenizerSpec parse_tokenizer_json(std::string_view bytes, const std::string& name);

}  // namespace espalier::text
