#include "server/commands/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

namespace espalier::commands {
namespace {

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The model that the text before an `=` names; absent: the text is a value with `=` in it, or
/// has none.
std::optional<size_t> named_model(const std::string& text, const std::vector<std::string>& names) {
  // A name may hold `=` itself.
  for (size_t model = 0; model < names.size(); ++model) {
    if (text.starts_with(names[model] + "=")) return model;
  }
  return std::nullopt;
}

bool is_path(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::exists(text, ignored);
}

}  // namespace

std::vector<std::vector<std::string>> values_by_model(const std::string& option,
                                                      const std::vector<std::string>& given,
                                                      const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> values(names.size());
  for (const std::string& text : given) {
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error("--" + option + " " + text + ": " + why);
    };
    if (const auto model = named_model(text, names)) {
      std::string value = text.substr(names[*model].size() + 1);
      if (value.empty()) refuse("expected a value after the =");
      values[*model].push_back(std::move(value));
      continue;
    }
    const size_t equals = text.find('=');
    if (equals != std::string::npos && !is_path(text)) {
      refuse("no model is called " + text.substr(0, equals) + "; there is " + listed(names));
    }
    if (names.size() > 1) {
      refuse(fmt::format("there are several models; write --{} NAME={}, where NAME is one of {}",
                         option, text, listed(names)));
    }
    values.front().push_back(text);
  }
  return values;
}

std::vector<std::string> value_by_model(const std::string& option,
                                        const std::vector<std::string>& given,
                                        const std::vector<std::string>& names) {
  std::vector<std::string> values;
  const auto lists = values_by_model(option, given, names);
  for (size_t model = 0; model < lists.size(); ++model) {
    if (lists[model].size() > 1) {
      throw std::runtime_error(fmt::format("--{}: {} was given several ({}); one is the most",
                                           option, names[model], listed(lists[model])));
    }
    values.push_back(lists[model].empty() ? "" : lists[model].front());
  }
  return values;
}

std::vector<ModelOptions> model_options(const Options& options,
                                        const std::vector<std::string>& names) {
  const auto prompts = value_by_model("default-prompt-name", options.default_prompt_names, names);
  const auto adapters = values_by_model("lora", options.lora_adapters, names);
  const auto poolings = value_by_model("pooling", options.poolings, names);
  const auto templates = value_by_model("rerank-template", options.rerank_templates, names);
  const auto tokens = value_by_model("rerank-tokens", options.rerank_tokens, names);
  std::vector<ModelOptions> models(names.size());
  for (size_t model = 0; model < names.size(); ++model) {
    models[model].lora_adapters = adapters[model];
    models[model].default_prompt_name = prompts[model];
    models[model].pooling = poolings[model];
    models[model].rerank_template = templates[model];
    models[model].rerank_tokens = tokens[model];
  }
  return models;
}

}  // namespace espalier::commands
