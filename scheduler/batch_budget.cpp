#include "scheduler/batch_budget.h"

namespace espalier::scheduler {

BatchRules BatchRules::of(const SchedulerLimits& limits) {
  BatchRules rules;
  rules.rows_max = limits.batch_rows_max;
  rules.full_rows_max = limits.batch_full_rows_max;
  rules.sequences_max = limits.batch_sequences_max;
  rules.seconds_max = limits.batch_seconds_max;
  return rules;
}

std::optional<BatchClosed> refusal(const PlanBuilder& builder, uint64_t tenant,
                                   std::span<const uint32_t> ids, WantedRows wanted,
                                   const BatchRules& rules, const CostCoefficients& coefficients,
                                   double share) {
  if (builder.sequences() == 0) return std::nullopt;
  const PassWork price = builder.price(tenant, ids, wanted);
  const PassWork after = builder.work() + price;
  const auto tokens = static_cast<double>(ids.size());
  if (after.rows > share * static_cast<double>(rules.rows_max) ||
      static_cast<double>(builder.full_rows()) + tokens >
          share * static_cast<double>(rules.full_rows_max)) {
    return BatchClosed::kRows;
  }
  if (static_cast<double>(builder.sequences() + 1) >
      share * static_cast<double>(rules.sequences_max)) {
    return BatchClosed::kSequences;
  }
  const double stretch = share == 1 && 2 * price.rows <= tokens ? kStretch : 1;
  if (coefficients.seconds(after) > share * stretch * rules.seconds_max) {
    return BatchClosed::kSeconds;
  }
  return std::nullopt;
}

}  // namespace espalier::scheduler
