// What bounds one batch, and whether a ticket still fits.
//
// Thread contract: plain data and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/cost_model.h"
#include "scheduler/plan_builder.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

/// How much longer than batch_seconds_max a batch of tickets that share most may take.
inline constexpr double kStretch = 4;

struct BatchRules {
  size_t rows_max = 0;
  size_t full_rows_max = 0;
  size_t sequences_max = 0;
  double seconds_max = 0;
  bool interlude = false;                     // the turn that is owed is not its concern
  size_t ticket_tokens_max = SIZE_MAX;        // longer tickets are left where they are
  const std::vector<bool>* models = nullptr;  // null: all; else whether a model's tickets may run

  static BatchRules of(const SchedulerLimits& limits);
};

/// Why there is no room for a sequence in `share` of the budget of the batch that `builder` holds,
/// if there is none. An empty batch has room for any. With the whole budget (share 1), a sequence
/// of which at least half is shared may stretch the batch's time.
std::optional<BatchClosed> refusal(const PlanBuilder& builder, uint64_t tenant,
                                   std::span<const uint32_t> ids, WantedRows wanted,
                                   const BatchRules& rules, const CostCoefficients& coefficients,
                                   double share);

}  // namespace espalier::scheduler
