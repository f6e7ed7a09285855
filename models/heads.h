// What becomes of a pooled hidden state: an embedding, or the logit of a token.
//
// Thread contract: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/safetensors.h"

namespace espalier::models {

/// The first `dimensions` of hidden (H), divided by their L2 norm if `normalize` (Matryoshka
/// embeddings are cut first). Throws std::out_of_range unless 1 <= dimensions <= H.
std::vector<float> pooled_embedding(std::span<const float> hidden, size_t dimensions,
                                    bool normalize);

/// hidden (H) · row `id` of head (vocab × H). Throws std::out_of_range when there is no such row,
/// or hidden is of another width.
float head_logit(const engine::TensorView& head, std::span<const float> hidden, uint32_t id);

}  // namespace espalier::models
