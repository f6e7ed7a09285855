#include "models/embedding_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "models/gguf_config.h"
#include "models/json_file.h"
#include "models/known_code.h"
#include "models/rerank_config.h"
#include "models/sentence_modules.h"

namespace espalier::models {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr size_t kMaxWidth = size_t{1} << 20;
/// One folder may be named again and again: memory is to follow from the files' sizes.
constexpr size_t kDenseModulesMax = 8;

constexpr char kSupportedPooling[] = "supported: lasttoken, mean and cls, one of them";

/// The pooling that `mode` names, as `pooling_mode` or within "pooling_mode_…".
std::optional<Pooling> pooling_of(std::string_view mode) {
  if (mode == "lasttoken") return Pooling::kLastToken;
  if (mode == "mean" || mode == "mean_tokens") return Pooling::kMean;
  if (mode == "cls" || mode == "cls_token") return Pooling::kFirstToken;
  return std::nullopt;
}

Pooling read_pooling(const Path& file) {
  constexpr std::string_view kModePrefix = "pooling_mode_";
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  std::optional<Pooling> pooling;
  const auto take = [&](const std::string& key, std::string_view mode) {
    const std::optional<Pooling> named = pooling_of(mode);
    if (!named)
      object.fail(key, excerpt(std::string(mode)) + " is not supported; " + kSupportedPooling);
    if (pooling && *pooling != *named) {
      object.fail(key,
                  std::string("is not supported beside another pooling; ") + kSupportedPooling);
    }
    pooling = named;
  };
  for (const auto& [key, value] : root.items()) {
    if (key.compare(0, kModePrefix.size(), kModePrefix) == 0 && object.boolean(key, false)) {
      take(key, std::string_view(key).substr(kModePrefix.size()));
    }
  }
  // Newer versions name it in one key.
  if (object.has("pooling_mode")) take("pooling_mode", object.text("pooling_mode", ""));
  if (!pooling) object.fail("pooling_mode", std::string("is missing; ") + kSupportedPooling);
  if (*pooling == Pooling::kMean && !object.boolean("include_prompt", true)) {
    // The last and the first token's states do not change with it.
    object.fail("include_prompt", "false is not supported with mean pooling");
  }
  return *pooling;
}

DenseConfig::Activation read_activation(const JsonObject& object) {
  const std::string name = object.text("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string kind = name.substr(name.rfind('.') + 1);
  if (kind == "Identity") return DenseConfig::Activation::kIdentity;
  if (kind != "Tanh") {
    object.fail("activation_function",
                excerpt(name) + " is not supported; supported: Identity, Tanh");
  }
  return DenseConfig::Activation::kTanh;
}

DenseConfig read_dense(const Path& file) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  for (const char* key : {"module_input_name", "module_output_name"}) {
    if (object.text(key, "sentence_embedding") != "sentence_embedding") {
      object.fail(key, excerpt(object.at(key)) + " is not supported; needs sentence_embedding");
    }
  }
  return {.folder = file.parent_path(),
          .inputs = object.size("in_features", kMaxWidth),
          .outputs = object.size("out_features", kMaxWidth),
          .bias = object.boolean("bias", true),
          .activation = read_activation(object)};
}

/// Pooling, any number of Dense and at most one Normalize, in this order.
void read_modules(const std::vector<SentenceModule>& modules, EmbeddingConfig& config) {
  config.normalize = false;
  for (size_t i = 0; i < modules.size(); ++i) {
    const SentenceModule& module = modules[i];
    const bool last = i + 1 == modules.size();
    if (i == 0 && module.kind == "Pooling") {
      config.pooling = read_pooling(module.config);
    } else if (i > 0 && module.kind == "Dense") {
      if (config.dense.size() == kDenseModulesMax) {
        throw std::runtime_error(module.where + ": more than " + std::to_string(kDenseModulesMax) +
                                 " Dense modules are not supported");
      }
      config.dense.push_back(read_dense(module.config));
    } else if (i > 0 && last && module.kind == "Normalize") {
      config.normalize = true;
    } else {
      throw std::runtime_error(module.where + ": type: " + excerpt(module.kind) +
                               " is not supported here; supported: Transformer, Pooling, Dense up "
                               "to 8 times and optionally Normalize, in this order (or "
                               "Transformer and LogitScore)");
    }
  }
  config.has_pooling_module = true;
}

void read_prompts(const JsonObject& object, const json& root, EmbeddingConfig& config) {
  if (const auto prompts = object.object("prompts")) {
    for (const auto& [name, value] : root["prompts"].items()) {
      config.prompts[name] = prompts->text(name, "");
    }
  }
  config.default_prompt_name = object.text("default_prompt_name", "");
  if (!config.default_prompt_name.empty() && !config.prompts.contains(config.default_prompt_name)) {
    object.fail("default_prompt_name", excerpt(config.default_prompt_name) + " is not in prompts");
  }
}

/// The tokenizer does not lower-case on its own account, so a model that was trained that way would
/// get other ids.
void refuse_lower_casing(const Path& file) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  if (object.boolean("do_lower_case", false)) object.fail("do_lower_case", "is not supported");
}

/// `matryoshka_dimensions` of config.json.
std::vector<size_t> read_dimensions(const Path& file) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  if (!object.has("matryoshka_dimensions")) return {};
  const json& list = object.at("matryoshka_dimensions");
  const auto valid = [](const json& entry) {
    return entry.is_number_unsigned() && entry > 0U && entry <= kMaxWidth;
  };
  if (!list.is_array() || !std::ranges::all_of(list, valid)) {
    object.fail("matryoshka_dimensions", "expected an array of integers from 1 to " +
                                             std::to_string(kMaxWidth) + ", found " +
                                             excerpt(list));
  }
  auto dimensions = list.get<std::vector<size_t>>();
  std::ranges::sort(dimensions);
  // Not of std::ranges: clang 14, which builds the fuzz targets, cannot compile its result.
  dimensions.erase(std::unique(dimensions.begin(), dimensions.end()), dimensions.end());
  return dimensions;
}

}  // namespace

std::string_view name_of(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kFirstToken:
      return "first_token";
    case Pooling::kLastToken:
      break;
  }
  return "last_token";
}

EmbeddingConfig read_embedding_config(const Path& model) {
  if (is_gguf(model)) return read_gguf_embedding_config(engine::GgufFile::open(model));
  const Path& folder = model;
  EmbeddingConfig config;
  // Code of the model's own that pools and normalises as EmbeddingConfig does by default.
  const bool pools_itself = find_known_code(folder) != nullptr;
  config.has_pooling_module = pools_itself;
  if (has_file(folder, "modules.json")) {
    const std::vector<SentenceModule> modules = read_sentence_modules(folder);
    if (!modules.empty() && pools_itself) {
      throw std::runtime_error(modules.front().where + ": type: " + excerpt(modules.front().kind) +
                               " is not supported behind the model's own Transformer");
    }
    // A transformer alone, or with a LogitScore behind it, is a reranker's.
    if (!modules.empty() && modules.front().kind != "LogitScore") read_modules(modules, config);
    if (modules.empty() && !pools_itself && !read_rerank_config(folder).says_so()) {
      throw std::runtime_error((folder / "modules.json").string() +
                               ": expected the modules Transformer and Pooling");
    }
    config.from_sentence_transformers = true;
  }
  if (has_file(folder, "config_sentence_transformers.json")) {
    const Path file = folder / "config_sentence_transformers.json";
    const json root = read_json_file(file);
    const JsonObject object(root, file.string());
    read_prompts(object, root, config);
    if (object.has("truncate_dim"))
      config.default_dimensions = object.size("truncate_dim", kMaxWidth);
    config.from_sentence_transformers = true;
  }
  if (has_file(folder, "sentence_bert_config.json")) {
    refuse_lower_casing(folder / "sentence_bert_config.json");
  }
  if (has_file(folder, "config.json")) config.dimensions = read_dimensions(folder / "config.json");
  return config;
}

size_t embedding_size(const EmbeddingConfig& config, size_t hidden_size) {
  size_t width = hidden_size;
  for (const DenseConfig& dense : config.dense) {
    if (dense.inputs != width) {
      throw std::runtime_error((dense.folder / "config.json").string() + ": in_features: is " +
                               std::to_string(dense.inputs) + ", but what comes before it gives " +
                               std::to_string(width));
    }
    width = dense.outputs;
  }
  const auto check = [&](size_t dimensions, const char* key) {
    if (dimensions > width) {
      throw std::runtime_error(std::string(key) + ": " + std::to_string(dimensions) +
                               " is more than the embeddings have, " + std::to_string(width));
    }
  };
  if (!config.dimensions.empty()) {
    check(config.dimensions.back(), "config.json: matryoshka_dimensions");
  }
  check(config.default_dimensions.value_or(0), "config_sentence_transformers.json: truncate_dim");
  return width;
}

}  // namespace espalier::models
