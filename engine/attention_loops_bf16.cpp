// Attention in bf16 with AVX-512 BF16. It must not use inline functions of other headers: see
// fast_exp.h.
//
// vdpbf16ps multiplies pairs: of neighbouring elements of a head in q · k, of neighbouring slots in
// weights · values. It flushes subnormal numbers to zero.
#include <cstddef>

#include "engine/attention_bf16_pairs.h"
#include "engine/attention_loops_tables.h"
#include "engine/attention_products.h"

namespace espalier::engine {
namespace {

struct Bf16Product {
  /// sum + a's and b's pairs
  [[gnu::always_inline]] static FloatVector add(FloatVector sum, FloatVector a, FloatVector b) {
    return _mm512_dpbf16_ps(sum, bit_cast_to_bf16(a), bit_cast_to_bf16(b));
  }
};

void attend(const AttentionTile& tile, const AttentionStep& step, float scale) {
  const size_t width = (step.lanes + kVectorFloats - 1) / kVectorFloats * kVectorFloats;
  multiply<Bf16Product>(ScatteredRows{step.keys}, step.slots, tile.head_dim / 2,
                        RightMatrix{tile.queries + step.first_lane, tile.lane_stride}, width,
                        Zero{}, OutMatrix{tile.scores, width});
  softmax<PairedWeights>(tile, step, width, scale);
  pair_values(tile, step);
  multiply<Bf16Product>(Columns{tile.scores, width}, step.lanes, (step.slots + 1) / 2,
                        RightMatrix{tile.values, tile.padded_dim}, tile.padded_dim,
                        Rescaled{tile.rescale + step.first_lane},
                        OutMatrix{tile.sums + step.first_lane * tile.padded_dim, tile.padded_dim});
}

}  // namespace

const AttentionLoops kAvx512Bf16AttentionLoops = {pack_paired_queries, attend, write_bf16};

}  // namespace espalier::engine
