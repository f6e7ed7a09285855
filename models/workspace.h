// The activations of a forward pass: named buffers, reserved for the largest batch that the limits
// allow and used again for every batch.
//
// Thread contract: shaped() is one thread's; the views are written by whoever splits their rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/activations.h"
#include "engine/aligned_buffer.h"
#include "engine/mat_view.h"

namespace espalier::models {

/// Memory for one matrix of floats. Its contents are unspecified after shaped().
class Buffer {
 public:
  /// A (rows × cols) view, valid until the next call. Allocates only when the memory is smaller
  /// than ever before. Throws std::bad_alloc, and is empty then.
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

/// The same for activations of any format, with their scales.
class ActivationBuffer {
 public:
  engine::Activations shaped(engine::NumberFormat format, size_t rows, size_t cols) {
    const size_t stride = engine::activation_stride(format, cols);
    auto* const data =
        reinterpret_cast<std::byte*>(memory_.shaped(rows, stride / sizeof(float)).data);
    float* const scales =
        format == engine::NumberFormat::kInt8 ? scales_.shaped(rows, 1).data : nullptr;
    return {format, data, rows, cols, stride, scales};
  }

 private:
  Buffer memory_;
  Buffer scales_;
};

/// Rows that the intermediates of a layer exist for at a time. Large enough that a weight that is
/// read from memory serves many rows, small enough for a long input.
inline constexpr size_t kRowBlock = 1024;
/// The same in batches of many rows, where a block reads so many keys that nobody should wait for a
/// larger one (the pass can pause between blocks).
inline constexpr size_t kRowBlockOfLongBatches = 256;
inline constexpr size_t kLongBatchRows = 4096;

/// C compact rows, W wanted rows, B rows of a block, L tokens of the longest sequence, H, Q, K and
/// I as in LayerWeights.
struct Workspace {
  // For all rows of the batch.
  Buffer hidden;            // (C × H) the residual stream
  ActivationBuffer keys;    // (C × K) of one layer
  ActivationBuffer values;  // (C × K)
  Buffer wanted;            // (W × H) the residual stream of the rows that the last layer finishes

  // For a block of rows.
  ActivationBuffer normed;     // (B × H)
  Buffer qkv;                  // (B × Q + 2K) as the product leaves it
  ActivationBuffer queries;    // (B × Q)
  ActivationBuffer attended;   // (B × Q)
  ActivationBuffer quantised;  // (B × Q) attended, where the output product reads another format
  ActivationBuffer activated;  // (B × I)
  Buffer gated_scratch;        // what GemmBackend::multiply_gated() asks for

  // One sequence at a time in full rows, for DedupMode::kRadixMlp.
  ActivationBuffer sequence_queries;   // (L × Q)
  ActivationBuffer sequence_keys;      // (L × K)
  ActivationBuffer sequence_values;    // (L × K)
  ActivationBuffer sequence_attended;  // (L × Q)
};

}  // namespace espalier::models
