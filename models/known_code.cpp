#include "models/known_code.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace espalier::models {
namespace {

using nlohmann::json;

constexpr KnownCode kKnown[] = {
    // jina-embeddings-v5-text-small: the configuration is Qwen3's under another name, and the model
    // a Qwen3Model to which PEFT adds the LoRA adapter of a task, of which every call names one.
    {.model_type = "jina_embeddings_v5",
     .architecture = "JinaEmbeddingsV5Model",
     .config_class = "configuration_jina_embeddings_v5.JinaEmbeddingsV5Config",
     .model_class = "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model",
     .transformer_module = "custom_st.Transformer",
     .family = &kQwen3,
     .merged_models = "jinaai/jina-embeddings-v5-text-small-"},
};

/// Whether the config has this as the first of its `architectures`.
bool has_architecture(const JsonObject& config, std::string_view name) {
  if (!config.has("architectures")) return false;
  const json& architectures = config.at("architectures");
  return architectures.is_array() && !architectures.empty() && architectures[0] == name;
}

void check_auto_map(const JsonObject& config, const KnownCode& code) {
  const auto map = config.object("auto_map");
  if (!map) return;
  for (const std::string& key : map->keys()) {
    const std::string found = map->text(key, "");
    if (found != code.config_class && found != code.model_class) {
      map->fail(key, excerpt(found) + " is not known; known are " + std::string(code.config_class) +
                         " and " + std::string(code.model_class));
    }
  }
}

}  // namespace

const KnownCode* find_known_code(const JsonObject& config) {
  const std::string model_type = config.has("model_type") && config.at("model_type").is_string()
                                     ? config.text("model_type", "")
                                     : "";
  const auto* const code = std::ranges::find_if(kKnown, [&](const KnownCode& known) {
    return model_type == known.model_type && has_architecture(config, known.architecture);
  });
  if (code == std::end(kKnown)) return nullptr;
  // jina-embeddings-v5-text-nano has the same names.
  if (!config.boolean("is_decoder", true)) {
    config.fail("is_decoder",
                "false is not supported: the model is a bidirectional encoder (EuroBERT), in which "
                "prefixes cannot be shared");
  }
  check_auto_map(config, *code);
  return code;
}

const KnownCode* find_known_code(const std::filesystem::path& folder) {
  if (!has_file(folder, "config.json")) return nullptr;
  const std::filesystem::path file = folder / "config.json";
  const json root = read_json_file(file);
  return find_known_code(JsonObject(root, file.string()));
}

}  // namespace espalier::models
