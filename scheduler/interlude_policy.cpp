#include "scheduler/interlude_policy.h"

#include <algorithm>

namespace espalier::scheduler {
namespace {

/// What `rate` (rows per second) does in `seconds`, between `at_least` and what a batch may have.
size_t rows_in(double seconds, double rate, size_t at_least, const SchedulerLimits& limits) {
  const double rows = std::min(rate * seconds, static_cast<double>(limits.batch_rows_max));
  return std::max(at_least, static_cast<size_t>(rows));
}

}  // namespace

std::optional<InterludeBudget> interlude_budget(const SchedulerLimits& limits, const Batch& running,
                                                const PassPace& pace,
                                                const std::vector<bool>& models) {
  const InterludeLimits& rules = limits.interludes;
  const double seconds = pace.own_seconds() + pace.still_seconds();
  const double left = pace.seconds_left();
  if (pace.own_seconds() < rules.after_seconds || left <= 0 || left < rules.left_seconds ||
      pace.still_seconds() > rules.share_max * seconds) {
    return std::nullopt;
  }
  // Attention makes a row of a long input dearer than one of a short input: the rate errs on the
  // safe side.
  const double rate = pace.rows_per_second(running.plan.compact_rows());
  const size_t short_tokens = rows_in(rules.short_seconds, rate, rules.always_short_tokens, limits);
  return InterludeBudget{std::min(running.longest / rules.length_ratio, short_tokens),
                         std::min(rows_in(rules.batch_seconds, rate, rules.batch_rows_min, limits),
                                  limits.batch_rows_max),
                         &models};
}

BatchRules interlude_rules(const SchedulerLimits& limits, const InterludeBudget& budget) {
  BatchRules rules = BatchRules::of(limits);
  rules.interlude = true;
  rules.rows_max = budget.rows_max;
  rules.ticket_tokens_max = budget.ticket_tokens_max;
  rules.models = budget.models;
  // RadixMLP's attention computes every full row, shared or not.
  if (limits.dedup == engine::DedupMode::kRadixMlp) {
    rules.full_rows_max = std::min(rules.full_rows_max, budget.rows_max);
  }
  return rules;
}

}  // namespace espalier::scheduler
