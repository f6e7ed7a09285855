// What a hub's refusals mean, and what to do about them.
//
// Thread contract: none needed.
#pragma once

#include <string>

#include "hub/environment.h"
#include "hub/http_client.h"
#include "hub/model_reference.h"

namespace espalier::hub {

/// For an answer of the hub itself that is none of 2xx and 3xx: throws NoAnswer for what may pass
/// (408, 429, 5xx), HubError for the rest. `file` is empty if the whole model was asked for.
[[noreturn]] void throw_refusal(const HttpHead& answer, const ModelReference& model,
                                const std::string& file, const Environment& environment);

}  // namespace espalier::hub
