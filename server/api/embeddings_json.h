// POST /v1/embeddings: JSON in, typed request; typed answer, JSON out.
#pragma once

#include <string>
#include <string_view>

#include "server/service/inference_service.h"

namespace espalier::server {

/// Entries of `input`, as OpenAI's API has it.
inline constexpr size_t kEmbeddingInputsMax = 2048;

/// Checks everything that can be checked without the model: types, ranges, empty inputs, their
/// number.
Result<EmbeddingRequest> parse_embedding_request(std::string_view body);

/// {"object":"list","data":[{"object":"embedding","index":0,"embedding":…}],"model":…,"usage":…}.
/// kInternal if a value is not finite.
Result<std::string> render_embedding_answer(const EmbeddingAnswer& answer,
                                            EmbeddingEncoding encoding, std::string_view model);

}  // namespace espalier::server
