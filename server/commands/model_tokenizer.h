// The tokenizer of a model, from wherever its files have it.
#pragma once

#include <filesystem>

#include "text/tokenizer.h"

namespace espalier::commands {

/// From tokenizer.json in a model's folder, or from the metadata of a GGUF file. Throws
/// std::runtime_error with file, key and reason.
text::Tokenizer load_tokenizer(const std::filesystem::path& model);

}  // namespace espalier::commands
