// The innermost loops of trie attention, compiled once for each instruction set and chosen at run
// time: one step of FlashAttention (Dao et al. 2022, "FlashAttention"; Milakov & Gimelshein 2018,
// "Online normalizer calculation for softmax") for the lanes of one chain. What lanes, chains and
// slots are: engine/attention_tile.h.
//
// This header is seen by files of several instruction sets: it has plain data alone.
//
// Thread contract: stateless functions and constant tables; a tile belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu_features.h"
#include "engine/number_format.h"

namespace espalier::engine {

/// T: key ranges begin at multiples of this position. Even, and a multiple of 32 for AMX.
inline constexpr size_t kKeyRange = 64;
/// Elements that the rows of packed keys, values and sums are padded to, with zeros.
inline constexpr size_t kHeadDimStep = 32;
/// Lanes that loops may touch beyond the last one of a chain.
inline constexpr size_t kLaneSlack = 16;

/// Memory of one tile of query rows with one KV head. Everything begins at multiples of 64 bytes.
struct AttentionTile {
  size_t head_dim = 0;
  size_t padded_dim = 0;     // a multiple of kHeadDimStep
  size_t lanes = 0;          // query rows · query heads of the KV head
  size_t lane_stride = 0;    // >= lanes + kLaneSlack, a multiple of 16
  float* queries = nullptr;  // (head_dim or fewer × lane_stride) dwords, as pack_queries left them
  float* keys = nullptr;     // (kKeyRange × padded_dim), for loops that copy keys
  float* values = nullptr;   // (kKeyRange × padded_dim)
  float* scores = nullptr;   // (kKeyRange × lane_stride): logits, then their weights
  float* sums = nullptr;     // (lane_stride × padded_dim) Σ weight · value
  float* maximum = nullptr;  // (lane_stride) of logits · log2(e) so far; at first -infinity
  float* weight_sum = nullptr;  // (lane_stride) Σ weight
  float* rescale = nullptr;     // (lane_stride) what sums so far are multiplied by in this step
};

/// The keys of one chain in one range of positions, and its lanes.
struct AttentionStep {
  size_t slots = 0;                          // keys, 1 to kKeyRange; slot s is position begin + s
  const std::byte* const* keys = nullptr;    // (slots) head_dim elements each
  const std::byte* const* values = nullptr;  // (slots)
  size_t first_lane = 0;
  size_t lanes = 0;
  const int32_t* visible = nullptr;  // (lanes) each lane sees the slots below this, at least one
};

/// One instruction set's versions for one number format. A lane's numbers depend on its query and
/// the slots that it sees alone. Keys, values and queries must be finite.
struct AttentionLoops {
  /// Transposes the queries of all lanes (head_dim elements each) into tile.queries.
  void (*pack_queries)(const AttentionTile& tile, const std::byte* const* lanes);
  /// One step of the online softmax. `scale`: of logits, times log2(e).
  void (*attend)(const AttentionTile& tile, const AttentionStep& step, float scale);
  /// out (head_dim) = sums of `lane` / weight_sum.
  void (*write)(const AttentionTile& tile, size_t lane, std::byte* out);
};

/// The loops for `isa`, which must be at most detected_isa(). Throws std::invalid_argument for
/// kInt8.
const AttentionLoops& attention_loops_for(Isa isa, NumberFormat format);

}  // namespace espalier::engine
