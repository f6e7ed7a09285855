// Which GGUF file of a repository is meant.
//
// Thread contract: none needed.
#pragma once

#include <string>
#include <vector>

namespace espalier::hub {

bool is_gguf(const std::string& file);
bool any_gguf(const std::vector<std::string>& files);

/// Of `files`, the GGUF file that `wanted` names: by its path, its name, or the quantisation in its
/// name ("Q8_0" of "Model-Q8_0.gguf", in any case). Without `wanted`, the only one. Throws HubError
/// that lists what there is, if not exactly one is meant, or it is one of several parts.
std::string choose_gguf(const std::vector<std::string>& files, const std::string& wanted,
                        const std::string& repository);

}  // namespace espalier::hub
