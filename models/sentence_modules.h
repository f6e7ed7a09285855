// modules.json of sentence-transformers: the steps behind which a model's answers come out.
//
// Thread contract: pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace espalier::models {

/// One step.
struct SentenceModule {
  std::string kind;              // "Pooling" of "sentence_transformers.models.Pooling"
  std::filesystem::path config;  // its config.json; of the transformer: none
  std::string where;             // for messages: the file and which module of it
};

/// The modules behind the transformer, in their order; none when the folder has no modules.json.
/// Throws std::runtime_error naming file and key for what is malformed, for modules of other
/// packages (they are code that this server does not have), and unless the transformer is first,
/// in the folder itself.
std::vector<SentenceModule> read_sentence_modules(const std::filesystem::path& folder);

}  // namespace espalier::models
