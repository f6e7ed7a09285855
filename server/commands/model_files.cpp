#include "server/commands/model_files.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "server/commands/bundled_model.h"
#include "server/commands/hub_model.h"

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The alias ends at the first `=`, unless the whole is the path of something.
ModelReference parse_reference(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || exists(text)) return {"", text};
  ModelReference reference{text.substr(0, equals), text.substr(equals + 1)};
  if (reference.alias.empty() || reference.location.empty()) {
    throw std::runtime_error("--model " + text + ": expected NAME=MODEL, or the model alone");
  }
  return reference;
}

}  // namespace

std::vector<ModelReference> model_references(const Options& options) {
  std::vector<ModelReference> references;
  for (const std::string& text : options.models) {
    ModelReference reference = parse_reference(text);
    const auto same = [&](const ModelReference& other) { return other.alias == reference.alias; };
    if (!reference.alias.empty() && std::ranges::any_of(references, same)) {
      throw std::runtime_error("--model " + text + ": another model is called " + reference.alias);
    }
    references.push_back(std::move(reference));
  }
  if (references.empty()) references.emplace_back();
  return references;
}

ModelFiles find_model(const ModelReference& reference) {
  fs::path folder;
  if (reference.location.empty()) {
    folder = find_bundled_model();
  } else {
    if (!exists(reference.location) && is_hub_name(reference.location)) {
      HubModel model = fetch_hub_model(reference.location);
      if (reference.alias.empty()) return {std::move(model.files), model.name, {}};
      return {std::move(model.files), reference.alias, {model.name}};
    }
    std::error_code error;
    if (!fs::is_directory(reference.location, error)) {
      throw std::runtime_error(
          "--model " + reference.location +
          " is not a folder; it must be one that holds config.json, tokenizer.json and "
          "model.safetensors, or the name of a model on Hugging Face, ORG/NAME");
    }
    // Without "." and a trailing slash the last part is the model's name.
    folder = fs::canonical(reference.location);
  }
  const std::string own_name = folder.filename().string();
  if (reference.alias.empty()) return {std::move(folder), own_name, {}};
  return {std::move(folder), reference.alias, {own_name}};
}

std::vector<ModelFiles> find_models(const Options& options) {
  std::vector<ModelFiles> models;
  for (const ModelReference& reference : model_references(options)) {
    ModelFiles files = find_model(reference);
    const auto same = [&](const ModelFiles& other) { return other.name == files.name; };
    if (std::ranges::any_of(models, same)) {
      throw std::runtime_error("--model " + reference.location + ": another model is called " +
                               files.name +
                               ", too; name one of them by --model NAME=" + reference.location);
    }
    models.push_back(std::move(files));
  }
  return models;
}

std::vector<std::string> names_of(const std::vector<ModelFiles>& models) {
  std::vector<std::string> names;
  for (const ModelFiles& model : models) names.push_back(model.name);
  return names;
}

ModelFiles find_only_model(const Options& options) {
  return find_model(model_references(options).front());
}

}  // namespace espalier::commands
