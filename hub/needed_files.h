// Which files of a repository the server reads.
//
// Thread contract: none needed.
#pragma once

#include <string>
#include <vector>

namespace espalier::hub {

/// An entry of sentence-transformers' modules.json.
struct Module {
  std::string kind;    // the last part of its type: "Pooling"
  std::string folder;  // "" is the model's own
};
/// Both throw HubError that names `source`.
std::vector<Module> parse_modules(const std::string& json_text, const std::string& source);
/// The files that model.safetensors.index.json names.
std::vector<std::string> parse_shards(const std::string& json_text, const std::string& source);

constexpr const char* kModules = "modules.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kWeightIndex = "model.safetensors.index.json";

/// Whether the model is one of the GGUF files in `files`: because `gguf` names one, or because
/// there are no safetensors, which go first.
bool reads_gguf(const std::vector<std::string>& files, const std::string& gguf);

/// Of `files`, those in the model's own folder that say what the others are, and what the model is
/// otherwise: all but the weights. Throws HubError for what the server cannot do without.
std::vector<std::string> settings_files(const std::vector<std::string>& files,
                                        const std::string& repository);

/// The rest of them: the weights, what the modules have in their folders, and LoRA adapters that
/// the model brings along. Weights come last. Throws HubError for a shard that is not among
/// `files`.
std::vector<std::string> further_files(const std::vector<std::string>& files,
                                       const std::vector<Module>& modules,
                                       const std::vector<std::string>& shards,
                                       const std::string& repository);

/// What `module` has in its folder if it is whole.
std::vector<std::string> required_of_module(const Module& module);

}  // namespace espalier::hub
