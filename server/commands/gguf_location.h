// GGUF files among the places that --model names.
#pragma once

#include <filesystem>

namespace espalier::commands {

/// What to load from `folder`: itself, or, where it has no safetensors, the one GGUF file that it
/// holds. Throws std::runtime_error for several, or a part of one that is split.
std::filesystem::path folder_or_gguf(const std::filesystem::path& folder);

}  // namespace espalier::commands
