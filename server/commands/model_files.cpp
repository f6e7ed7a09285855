#include "server/commands/model_files.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "models/gguf_config.h"
#include "server/commands/bundled_model.h"
#include "server/commands/gguf_location.h"
#include "server/commands/hub_model.h"
#include "text/utf8.h"

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Longer ones are cut where metrics and messages show them, and two could look the same there.
constexpr size_t kNameBytesMax = 128;

/// Requests name models in JSON; header fields, metrics and logs show their names.
void check_name(const std::string& location, const std::string& name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const char* why = nullptr;
  if (name.size() > kNameBytesMax) why = "is longer than 128 bytes";
  if (std::ranges::any_of(name, control)) why = "has control characters";
  if (!text::is_valid_utf8(name)) why = "is not UTF-8";
  if (why == nullptr) return;
  throw std::runtime_error("--model " + text::replace_invalid_utf8(location) +
                           ": the model's name " + why +
                           "; give it another one: --model NAME=MODEL");
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

/// A folder or a GGUF file of this machine. The last part of its path, without the extension of a
/// file, is the model's name.
fs::path local_model(const std::string& location) {
  std::error_code error;
  // Without "." and a trailing slash.
  if (fs::is_directory(location, error)) return folder_or_gguf(fs::canonical(location));
  // Not canonical: the files of a hub's cache are links to others that have no names.
  if (exists(location) && models::is_gguf(location)) return fs::absolute(location);
  throw std::runtime_error(
      "--model " + location +
      " is not a folder; it must be one that holds config.json, tokenizer.json and "
      "model.safetensors, or a GGUF file, or the name of a model on Hugging Face, ORG/NAME");
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
  const std::string& location = reference.location;
  ModelFiles model;
  if (!location.empty() && !exists(location) && is_hub_name(location)) {
    HubModel fetched = fetch_hub_model(location);
    model = {std::move(fetched.files), fetched.name};
  } else {
    model.folder = location.empty() ? find_bundled_model() : local_model(location);
    const bool is_file = models::is_gguf(model.folder);
    model.name = (is_file ? model.folder.stem() : model.folder.filename()).string();
  }
  if (!reference.alias.empty()) {
    model.other_names.push_back(std::exchange(model.name, reference.alias));
  }
  return model;
}

std::vector<ModelFiles> find_models(const Options& options) {
  std::vector<ModelFiles> models;
  const std::vector<ModelReference> references = model_references(options);
  for (const ModelReference& reference : references) {
    ModelFiles files = find_model(reference);
    // The only model is served whatever requests call it.
    if (references.size() > 1 || !reference.alias.empty()) {
      check_name(reference.location, files.name);
    }
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
