#include "server/commands/bench_batch.h"

#include <random>

#include "models/pass_flops.h"
#include "scheduler/plan_builder.h"

namespace espalier::commands {

engine::BatchPlan synthetic_plan(const BatchShape& shape, size_t vocabulary,
                                 engine::DedupMode dedup) {
  std::mt19937 random(1);
  const auto next_id = [&] { return static_cast<uint32_t>(random() % vocabulary); };
  std::vector<uint32_t> prefix(shape.prefix);
  for (uint32_t& id : prefix) id = next_id();
  std::vector<std::vector<uint32_t>> sequences(shape.sequences, prefix);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (size_t i = 0; i < shape.suffix; ++i) {
      // The first token of its own tells the sequences apart, as long as there are tokens enough.
      sequences[s].push_back(i == 0 ? static_cast<uint32_t>(s % vocabulary) : next_id());
    }
  }
  scheduler::PlanBuilder builder(dedup);
  for (const std::vector<uint32_t>& ids : sequences) {
    builder.add(0, ids, scheduler::WantedRows::kLast);
  }
  engine::BatchPlan plan;
  builder.build(plan);
  return plan;
}

double gemm_flops(const models::ModelConfig& config, size_t rows, size_t wanted) {
  const models::PassFlops flops = models::count_flops(config);
  return static_cast<double>(rows) * flops.row + static_cast<double>(wanted) * flops.wanted;
}

double attention_flops(const models::ModelConfig& config, const engine::BatchPlan& plan) {
  double pairs = 0;  // of a query and a key that it sees
  if (plan.dedup == engine::DedupMode::kRadixMlp) {
    for (size_t s = 0; s + 1 < plan.sequence_offsets.size(); ++s) {
      const double length = plan.sequence_offsets[s + 1] - plan.sequence_offsets[s];
      pairs += length * (length + 1) / 2;
    }
  } else {
    for (const uint32_t position : plan.positions) pairs += position + 1.0;
  }
  // In the last layer only wanted rows are queries.
  double wanted = 0;
  for (const uint32_t row : plan.wanted_rows) wanted += plan.positions[row] + 1.0;
  const auto width = static_cast<double>(config.query_heads * config.head_dim);
  return 4 * width * (static_cast<double>(config.layers - 1) * pairs + wanted);
}

}  // namespace espalier::commands
