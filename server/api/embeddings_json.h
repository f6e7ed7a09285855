// OpenAI's POST /v1/embeddings: JSON in, typed request; typed answer, JSON out.
#pragma once

#include <string>
#include <string_view>

#include "server/api/embedding_encoding.h"
#include "server/service/inference_service.h"

namespace espalier::server {

struct EmbeddingsBody {
  EmbeddingRequest request;
  EmbeddingEncoding encoding = EmbeddingEncoding::kFloat;
};

/// Checks everything that can be checked without the model: types, ranges, empty inputs.
Result<EmbeddingsBody> parse_embeddings_body(std::string_view body);

/// {"object":"list","data":[{"object":"embedding","index":0,"embedding":…}],"model":…,"usage":…}.
/// kInternal if a value is not finite.
Result<std::string> render_embeddings(const EmbeddingAnswer& answer, EmbeddingEncoding encoding,
                                      std::string_view model, size_t prompt_tokens);

}  // namespace espalier::server
