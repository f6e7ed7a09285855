// Cohere's POST /v1/embed and /v2/embed: JSON in, typed request; typed answer, JSON out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/embedding_encoding.h"
#include "server/service/inference_service.h"

namespace espalier::server {

enum class CohereVersion : uint8_t { kV1, kV2 };

struct CohereEmbedBody {
  EmbeddingRequest request;
  std::vector<EmbeddingEncoding> encodings;  // distinct; none: v1's plain arrays of floats
};

/// `texts`, or v2's `inputs` whose contents are text.
Result<CohereEmbedBody> parse_cohere_embed(std::string_view body, CohereVersion version);

/// {"id","embeddings":{"float":[…],…},"texts","response_type","meta"}, or with v1's plain arrays
/// "embeddings":[…]. kInternal if a value is not finite.
Result<std::string> render_cohere_embed(const EmbeddingAnswer& answer, const CohereEmbedBody& body,
                                        CohereVersion version, std::string_view id,
                                        size_t input_tokens);

}  // namespace espalier::server
