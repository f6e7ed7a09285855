// What the options say of one model: VALUE where one model is served, NAME=VALUE, repeated, where
// there are several (NAME as the model is called: --model NAME=…, or its own name).
//
// Thread contract: stateless.
#pragma once

#include <string>
#include <vector>

#include "server/commands/options.h"

namespace espalier::commands {

/// Plain data: what the options that concern one model are set to.
struct ModelOptions {
  std::string default_prompt_name;         // empty: the model's own
  std::vector<std::string> lora_adapters;  // folders, or names of adapters that the model brings
  std::string pooling;                     // last, mean or first; empty: the model's own
  std::string rerank_template;             // a file or a name; empty: the model's own
  std::string rerank_tokens;               // TRUE[/FALSE]; empty: the model's own
};

/// The options of each of the models called `names`, in that order. Throws std::runtime_error as
/// the functions below.
std::vector<ModelOptions> model_options(const Options& options,
                                        const std::vector<std::string>& names);

/// What `given` (the values of --`option`, each VALUE or NAME=VALUE) says of each of `names`; a
/// model's values stay in their order. Throws std::runtime_error, listing the names, for the name
/// of no model, and for a bare VALUE when there are several.
std::vector<std::vector<std::string>> values_by_model(const std::string& option,
                                                      const std::vector<std::string>& given,
                                                      const std::vector<std::string>& names);

/// The same for an option that a model takes once: its value, or an empty string. A second one is
/// an error, too.
std::vector<std::string> value_by_model(const std::string& option,
                                        const std::vector<std::string>& given,
                                        const std::vector<std::string>& names);

}  // namespace espalier::commands
