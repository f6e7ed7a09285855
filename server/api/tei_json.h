// The routes of text-embeddings-inference: JSON in, typed request; typed answer, JSON out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/service/inference_service.h"

namespace espalier::server {

/// Whose vectors are wanted. Those of tokens are neither cut nor normalised.
enum class TeiVectors : uint8_t { kInputs, kTokens };

/// POST /embed and /embed_all: `inputs`, `normalize` (true), `dimensions`, and how texts become
/// ids.
Result<EmbeddingRequest> parse_tei_embed(std::string_view body,
                                         TeiVectors vectors = TeiVectors::kInputs);
/// [[…], …] in the order of the inputs. kInternal if a value is not finite.
Result<std::string> render_tei_embeddings(const EmbeddingAnswer& answer);
/// [[[…], …], …]: of each input, each token's.
Result<std::string> render_token_embeddings(const TokenEmbeddingAnswer& answer);

/// POST /similarity: {"inputs": {"source_sentence", "sentences"}, "parameters": {…}}. The first
/// input of the request is the source sentence.
Result<EmbeddingRequest> parse_similarity(std::string_view body);
/// [cosine of the first embedding with each of the others]. kInternal if one is not finite.
Result<std::string> render_similarities(const EmbeddingAnswer& answer);

}  // namespace espalier::server
