// One model's forward pass over a batch plan: the interface at which scheduler and models meet.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/batch_plan.h"
#include "engine/mat_view.h"

namespace espalier::engine {

/// Called between layers with the number of layers done and their total, on the thread that called
/// run(). It must not throw.
using LayerProgress = std::function<void(size_t layers_done, size_t layers)>;

/// Thread contract: one run() at a time per object; different objects are independent.
class ForwardPass {
 public:
  virtual ~ForwardPass() = default;

  /// H, the width of a hidden state.
  virtual size_t hidden_size() const = 0;

  /// Runs the model on `plan` and returns the final hidden states (after the last norm) of
  /// plan.wanted_rows, (W × H) f32, valid until the next run(). `plan` must be well formed: token
  /// ids below the vocabulary's size, positions below the model's maximum (programmer errors
  /// otherwise). Throws std::bad_alloc when there is no memory for the batch, and
  /// std::runtime_error when the result is not finite; the object is usable afterwards.
  virtual ConstMatView run(const BatchPlan& plan, const LayerProgress& progress) = 0;
};

}  // namespace espalier::engine
