// What heads have in common: products of vectors, cutting and normalising embeddings.
//
// Thread contract: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace espalier::models {

/// The first `dimensions` of hidden (H), divided by their L2 norm if `normalize` (Matryoshka
/// embeddings are cut first). Throws std::out_of_range unless 1 <= dimensions <= H.
std::vector<float> pooled_embedding(std::span<const float> hidden, size_t dimensions,
                                    bool normalize);

/// a · b, both of the same length, accumulated in double. Throws std::out_of_range unless they are.
double dot(std::span<const float> a, std::span<const float> b);

}  // namespace espalier::models
