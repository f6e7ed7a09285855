// Where the models are that --model names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "server/commands/options.h"

namespace espalier::commands {

/// One --model: `NAME=LOCATION`, or the location alone.
struct ModelReference {
  std::string alias;     // what clients call it; empty: its own name
  std::string location;  // a folder, a GGUF file, or a name on a hub; empty: the bundled model
};

/// The models that the options ask for, at least one. Throws std::runtime_error for two of one
/// alias.
std::vector<ModelReference> model_references(const Options& options);

/// A model's files, found on this machine.
struct ModelFiles {
  std::filesystem::path folder;               // or a GGUF file
  std::string name;                           // in answers and in GET /v1/models
  std::vector<std::string> other_names = {};  // by which requests may ask for it, too
};

/// Throws std::runtime_error if there is no such model.
ModelFiles find_model(const ModelReference& reference);

/// All models that the options ask for, in their order. Throws std::runtime_error, too, for two of
/// one name.
std::vector<ModelFiles> find_models(const Options& options);

std::vector<std::string> names_of(const std::vector<ModelFiles>& models);

/// find_model() for commands that use one model.
ModelFiles find_only_model(const Options& options);

}  // namespace espalier::commands
