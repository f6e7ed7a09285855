// Where the time of forward passes goes.
//
// Thread contract: one thread's, that of the pass.
#pragma once

#include <chrono>

namespace espalier::models {

/// Seconds of wall time, summed over passes.
struct StageSeconds {
  double gemm = 0;            // matrix products with weights, and what is fused into them
  double attention = 0;       // the attention kernels
  double rows = 0;            // norms, rotation, conversion, embedding look-up
  double gather_scatter = 0;  // between compact and full rows, DedupMode::kRadixMlp alone
};

/// Adds the time of its life to one stage.
class StageClock {
 public:
  explicit StageClock(double& stage) : stage_(stage), started_(Clock::now()) {}
  ~StageClock() { stage_ += std::chrono::duration<double>(Clock::now() - started_).count(); }
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& stage_;
  Clock::time_point started_;
};

}  // namespace espalier::models
