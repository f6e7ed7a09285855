// --model ORG/NAME: a model by its name on a hub.
//
// Thread contract: the main thread.
#pragma once

#include <filesystem>
#include <string>

namespace espalier::commands {

struct HubModel {
  std::filesystem::path files;  // its folder in the cache, or its GGUF file there
  std::string name;             // "ORG/NAME"
};

/// Whether `location`, which is no path of something, is meant as the name of a model on a hub.
bool is_hub_name(const std::string& location);

/// Fetches what is not there yet, with progress on stderr. Throws std::runtime_error, with
/// hub::Cancelled among what derives from it.
HubModel fetch_hub_model(const std::string& name);

}  // namespace espalier::commands
