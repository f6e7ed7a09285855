#include "server/api/model_json.h"

#include <nlohmann/json.hpp>

namespace espalier::server {

const char* name_of(ModelPurpose purpose) {
  switch (purpose) {
    case ModelPurpose::kEmbedding:
      return "embedding";
    case ModelPurpose::kReranking:
      return "rerank";
    case ModelPurpose::kBoth:
      break;
  }
  return "both";
}

nlohmann::ordered_json model_json(const ServedModel& model, int64_t created) {
  nlohmann::ordered_json json = {
      {"id", model.name},
      {"object", "model"},
      {"created", created},
      {"owned_by", "espalier"},
      {"root", model.name},
      {"parent", nullptr},
      {"max_model_len", model.max_input_tokens},
      {"can_embed", model.can_embed()},
      {"can_rerank", model.can_rerank()},
      {"made_for", name_of(model.purpose)},
      {"dimensions", nullptr},
      {"prompts", nlohmann::ordered_json::array()},
  };
  if (model.can_embed()) json["dimensions"] = model.embedding_size;
  for (const auto& [name, text] : model.prompts) json["prompts"].push_back(name);
  return json;
}

nlohmann::ordered_json tei_model_type(const ServedModel& model) {
  nlohmann::ordered_json type = nlohmann::ordered_json::object();
  if (model.can_embed()) type["embedding"] = {{"pooling", model.pooling}};
  if (model.can_rerank()) type["reranker"] = {{"id2label", {{"0", "LABEL_0"}}}};
  return type;
}

std::string as_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace espalier::server
