// The activations of a forward pass: named buffers that grow to the largest batch and are used
// again.
//
// Thread contract: shaped() is one thread's; the views are written by whoever splits their rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/aligned_buffer.h"
#include "engine/mat_view.h"
#include "models/model_config.h"

namespace espalier::models {

/// Memory for one matrix. Its contents are unspecified after shaped().
class Buffer {
 public:
  /// A (rows × cols) view, valid until the next call. Throws std::bad_alloc, and is empty then.
  engine::MutMatView shaped(size_t rows, size_t cols) {
    const size_t wanted = rows * cols;
    if (wanted > memory_.size()) {
      memory_ = {};  // first, so that the old and the new are never both there
      memory_ = engine::AlignedBuffer(wanted);
    }
    return {memory_.data(), rows, cols};
  }

 private:
  engine::AlignedBuffer memory_;
};

/// Rows that the wide intermediates of a layer exist for at a time.
inline constexpr size_t kRowBlock = 256;

/// C compact rows, W wanted rows, L tokens of the longest sequence, Q and K as in LayerWeights.
struct Workspace {
  Buffer hidden;        // (C × H) the residual stream
  Buffer wanted;        // (W × H) the same for the rows that the last layer finishes
  Buffer qkv;           // (C × Q + 2K), in the last layer (C × 2K)
  Buffer last_queries;  // (W × Q)
  Buffer attended;      // (C × Q)
  Buffer normed;        // (kRowBlock × H)
  Buffer projected;     // (kRowBlock × H)
  Buffer gate_up;       // (kRowBlock × 2I)
  Buffer activated;     // (kRowBlock × I)

  // One sequence at a time in full rows, for DedupMode::kRadixMlp.
  Buffer sequence_queries;   // (L × Q)
  Buffer sequence_keys;      // (L × K)
  Buffer sequence_values;    // (L × K)
  Buffer sequence_attended;  // (L × Q)
};

/// Bytes that a batch of `rows` compact rows takes, all of them wanted, without kRadixMlp's
/// buffers.
inline size_t workspace_bytes(const ModelConfig& config, size_t rows) {
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const size_t per_row = 2 * config.hidden_size + 3 * query_width + 2 * kv_width;
  const size_t per_block_row = 2 * config.hidden_size + 3 * config.intermediate_size;
  return sizeof(float) * (rows * per_row + std::min(rows, kRowBlock) * per_block_row);
}

}  // namespace espalier::models
