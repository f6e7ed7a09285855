// What a client may know of a model before it asks it for something.
//
// Thread contract: functions without state.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "server/service/served_model.h"

namespace espalier::server {

/// One entry of OpenAI's list of models, with what else clients ask for: vLLM's `max_model_len`,
/// and {"dimensions","can_embed","can_rerank","made_for","prompts":[…]}. `created`: in seconds
/// since 1970.
nlohmann::ordered_json model_json(const ServedModel& model, int64_t created);

/// "embedding", "rerank" or "both".
const char* name_of(ModelPurpose purpose);

/// text-embeddings-inference's word for what a model is: {"embedding":{…}}, {"reranker":{…}} or
/// both.
nlohmann::ordered_json tei_model_type(const ServedModel& model);

/// As bytes of a body; what is no UTF-8 becomes U+FFFD.
std::string as_text(const nlohmann::ordered_json& json);

}  // namespace espalier::server
