#include "models/rerank_config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "models/gguf_config.h"
#include "models/json_file.h"
#include "models/sentence_modules.h"

namespace espalier::models {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr size_t kMaxTokenId = (size_t{1} << 26U) - 1;
constexpr size_t kMaxLabels = size_t{1} << 20U;

uint32_t read_token(const JsonObject& object, const char* key) {
  const json& value = object.at(key);
  if (!value.is_number_unsigned() || value > kMaxTokenId) {
    object.fail(key, "expected a token id, found " + excerpt(value));
  }
  return value.get<uint32_t>();
}

LogitScore read_logit_score(const Path& file) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  if (object.text("module_input_name", "causal_logits") != "causal_logits") {
    object.fail("module_input_name", "is not supported unless causal_logits");
  }
  if (!object.has("true_token_id")) object.fail("true_token_id", "is missing");
  LogitScore score{read_token(object, "true_token_id"), std::nullopt};
  if (object.has("false_token_id")) score.false_token = read_token(object, "false_token_id");
  return score;
}

bool is_classifier(const JsonObject& object) {
  constexpr std::string_view kSuffix = "ForSequenceClassification";
  if (!object.has("architectures")) return false;
  const json& architectures = object.at("architectures");
  return architectures.is_array() && !architectures.empty() && architectures[0].is_string() &&
         architectures[0].get_ref<const std::string&>().ends_with(kSuffix);
}

/// Whether a label's name says that the document is relevant.
bool means_relevant(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  constexpr std::string_view kRelevant[] = {"yes", "true", "1", "relevant", "positive"};
  return std::ranges::find(kRelevant, name) != std::end(kRelevant);
}

void read_labels(const JsonObject& object, RerankConfig& config) {
  constexpr size_t kPublishedDefault = 2;  // Hugging Face's, where a config says nothing
  const auto names = object.object("id2label");
  const size_t named = names ? object.at("id2label").size() : kPublishedDefault;
  const size_t labels = object.size("num_labels", kMaxLabels, std::max<size_t>(named, 1));
  const char* const key = object.has("num_labels") ? "num_labels" : "id2label";
  if (labels > 2) {
    object.fail(key,
                std::to_string(labels) + " labels are not supported; a reranker has one or two");
  }
  config.labels = labels;
  config.first_label_is_relevant = labels == 2 && names && means_relevant(names->text("0", ""));
}

std::vector<std::string> read_classifier_tokens(const JsonObject& object) {
  if (!object.has("classifier_from_token")) return {};
  const json& tokens = object.at("classifier_from_token");
  const auto is_text = [](const json& token) { return token.is_string(); };
  if (!tokens.is_array() || tokens.empty() || tokens.size() > 2 ||
      !std::ranges::all_of(tokens, is_text)) {
    object.fail("classifier_from_token",
                "expected [\"no\", \"yes\"] or one token, found " + excerpt(tokens));
  }
  // The rows that two labels would have, or their difference as one label: the same score.
  const std::string method = object.text("method", "no_post_processing");
  if (method != "no_post_processing" && method != "from_2_way_softmax") {
    object.fail("method", excerpt(method) +
                              " is not supported; supported: from_2_way_softmax, "
                              "no_post_processing");
  }
  return tokens.get<std::vector<std::string>>();
}

void read_classifier(const Path& file, RerankConfig& config) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  config.classifier_tokens = read_classifier_tokens(object);
  // With such tokens the weights are still those of the language model.
  if (config.classifier_tokens.empty() && is_classifier(object)) read_labels(object, config);
}

}  // namespace

RerankConfig read_rerank_config(const Path& model) {
  if (is_gguf(model)) return read_gguf_rerank_config(engine::GgufFile::open(model));
  const Path& folder = model;
  constexpr char kUsualFolder[] = "1_LogitScore";
  RerankConfig config;
  if (has_file(folder, "config.json")) read_classifier(folder / "config.json", config);
  const std::vector<SentenceModule> modules = read_sentence_modules(folder);
  if (!modules.empty() && modules.front().kind == "LogitScore") {
    if (modules.size() > 1) {
      throw std::runtime_error(modules[1].where + ": type: " + excerpt(modules[1].kind) +
                               " is not supported behind LogitScore");
    }
    config.logit_score = read_logit_score(modules.front().config);
    config.from_logit_score_module = true;
  } else if (has_file(folder, kUsualFolder) && has_file(folder / kUsualFolder, "config.json")) {
    // Beside the modules of an embedding model: it does both.
    config.logit_score = read_logit_score(folder / kUsualFolder / "config.json");
  }
  return config;
}

}  // namespace espalier::models
