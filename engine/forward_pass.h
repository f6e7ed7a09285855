// One model's forward pass over a batch plan: the interface at which scheduler and models meet.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/batch_plan.h"
#include "engine/mat_view.h"

namespace espalier::engine {

/// Called at points where the pass can pause: at least between layers, more often where a layer
/// takes long. `steps_done` of `steps` equal shares of the pass's work are done, as near as the
/// pass can tell; it grows from call to call. It is called on the thread that called run(), it must
/// not throw, and it may take as long as it likes: the pass stands still meanwhile, and other
/// ForwardPass objects may run, those that share its weights included. False abandons the pass.
using PassProgress = std::function<bool(size_t steps_done, size_t steps)>;

/// Thread contract: one run() at a time per object; different objects are independent.
class ForwardPass {
 public:
  virtual ~ForwardPass() = default;

  /// H, the width of a hidden state.
  virtual size_t hidden_size() const = 0;

  /// Runs the model on `plan` and returns the final hidden states (after the last norm) of
  /// plan.wanted_rows, (W × H) f32, valid until the next run(). `plan` must be well formed: token
  /// ids below the vocabulary's size, positions below the model's maximum (programmer errors
  /// otherwise). Once `progress` (empty: nobody asks) has returned false it is not called again,
  /// and run() returns soon, a view of 0 rows; where nothing is left to do it may return the result
  /// instead. Throws std::bad_alloc when there is no memory for the batch, and std::runtime_error
  /// when the result is not finite; the object is usable afterwards.
  virtual ConstMatView run(const BatchPlan& plan, const PassProgress& progress) = 0;
};

}  // namespace espalier::engine
