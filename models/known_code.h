// Models that come with code of their own (`auto_map`) which is known to compute a family's causal
// decoder, and nothing else that would have to be computed here. All other code is refused.
//
// Thread contract: constants, and functions that only read.
#pragma once

#include <filesystem>
#include <string_view>

#include "models/families/family.h"
#include "models/json_file.h"

namespace espalier::models {

struct KnownCode {
  std::string_view model_type;    // of config.json,
  std::string_view architecture;  // the first of its `architectures`,
  std::string_view config_class;  // and the values of its `auto_map`
  std::string_view model_class;
  std::string_view transformer_module;  // in modules.json: it pools the last token and normalises
  const Family* family;                 // whose decoder the code computes
  std::string_view merged_models;       // where the model with an adapter merged is, up to its task
};

/// The entry that has the config's model_type and architecture; null when there is none. Throws
/// std::runtime_error naming the key where the config says that it is another model after all.
const KnownCode* find_known_code(const JsonObject& config);

/// The same of config.json in `folder`; null also where there is no such file.
const KnownCode* find_known_code(const std::filesystem::path& folder);

}  // namespace espalier::models
