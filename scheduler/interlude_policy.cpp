#include "scheduler/interlude_policy.h"

#include <algorithm>

namespace espalier::scheduler {
namespace {

/// What `rate` (rows per second) does in `seconds`, between `at_least` and what a batch may have.
size_t rows_in(double seconds, double rate, size_t at_least, const SchedulerLimits& limits) {
  const double rows = std::min(rate * seconds, static_cast<double>(limits.batch_rows_max));
  return std::max(at_least, static_cast<size_t>(rows));
}

SchedulerLimits with_batch_rows(SchedulerLimits limits, size_t rows_max) {
  limits.batch_rows_max = rows_max;
  // RadixMLP's attention computes every full row, shared or not.
  if (limits.dedup == engine::DedupMode::kRadixMlp) {
    limits.batch_full_rows_max = std::min(limits.batch_full_rows_max, rows_max);
  }
  return limits;
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

InterludePolicy::InterludePolicy(const SchedulerLimits& limits, const InterludeBudget& budget,
                                 PlanBuilder& builder)
    : budget_(budget), batch_policy_(with_batch_rows(limits, budget.rows_max), builder) {}

bool InterludePolicy::passes_over(const Ticket& ticket) const {
  return ticket.token_ids().size() > budget_.ticket_tokens_max ||
         !(*budget_.models)[ticket.request->model()];
}

}  // namespace espalier::scheduler
