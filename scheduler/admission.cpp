#include "scheduler/admission.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace espalier::scheduler {
namespace {

constexpr double kRateWeight = 0.2;  // of the newest batch in the moving average
constexpr double kRetryAfterSecondsMin = 1;
constexpr double kRetryAfterSecondsMax = 600;

}  // namespace

QueueDepth demand_of(const Submission& submission) {
  QueueDepth demand;
  demand.tickets = submission.sequences.size();
  for (const Sequence& sequence : submission.sequences) {
    demand.tokens += sequence.token_ids.size();
  }
  return demand;
}

std::optional<Failure> AdmissionControl::never_fits(const Submission& submission) const {
  const auto refuse = [](std::string message) {
    return Failure{FailureKind::kNeverFits, std::move(message), {}};
  };
  const QueueDepth demand = demand_of(submission);
  if (demand.tickets > limits_.queue_tickets_max) {
    return refuse("the request has " + std::to_string(demand.tickets) +
                  " inputs, more than the server's queue holds (" +
                  std::to_string(limits_.queue_tickets_max) + "); send fewer at once");
  }
  for (size_t i = 0; i < demand.tickets; ++i) {
    const size_t tokens = submission.sequences[i].token_ids.size();
    if (tokens > limits_.sequence_tokens_max) {
      return refuse("input " + std::to_string(i) + " has " + std::to_string(tokens) +
                    " tokens, more than the server takes (" +
                    std::to_string(limits_.sequence_tokens_max) + ")");
    }
  }
  if (demand.tokens > limits_.queue_tokens_max) {
    return refuse("the request has " + std::to_string(demand.tokens) +
                  " tokens, more than the server's queue holds (" +
                  std::to_string(limits_.queue_tokens_max) + "); send fewer inputs at once");
  }
  return std::nullopt;
}

Failure AdmissionControl::queue_full(const QueueDepth& demand,
                                     const std::vector<QueueDepth>& depths) const {
  QueueDepth depth;
  double backlog_seconds = 0;
  for (size_t model = 0; model < depths.size(); ++model) {
    depth.tickets += depths[model].tickets;
    depth.tokens += depths[model].tokens;
    backlog_seconds += predicted_seconds(model, depths[model].tokens);
  }
  // How much must leave before `wanted` more fit.
  const auto excess = [](size_t held, size_t wanted, size_t max) {
    return held + wanted > max ? static_cast<double>(held + wanted - max) : 0.0;
  };
  double tokens = excess(depth.tokens, demand.tokens, limits_.queue_tokens_max);
  if (depth.tickets > 0) {
    const double tokens_per_ticket =
        static_cast<double>(depth.tokens) / static_cast<double>(depth.tickets);
    tokens = std::max(tokens, tokens_per_ticket *
                                  excess(depth.tickets, demand.tickets, limits_.queue_tickets_max));
  }
  const double seconds_per_token =
      depth.tokens > 0 ? backlog_seconds / static_cast<double>(depth.tokens) : 0;
  const double seconds = std::clamp(std::ceil(tokens * seconds_per_token), kRetryAfterSecondsMin,
                                    kRetryAfterSecondsMax);
  return {FailureKind::kQueueFull,
          "the queue is full: " + std::to_string(depth.tickets) + " inputs of " +
              std::to_string(depth.tokens) + " tokens are waiting; try again in " +
              std::to_string(static_cast<int64_t>(seconds)) + " s, or send fewer inputs",
          std::chrono::seconds(static_cast<int64_t>(seconds))};
}

double AdmissionControl::predicted_seconds(size_t model, size_t tokens) const {
  double rate = rate_of(model);
  for (size_t other = 0; !has_observed(model) && other < tokens_per_second_.size(); ++other) {
    if (has_observed(other)) rate = rate > 0 ? std::min(rate, rate_of(other)) : rate_of(other);
  }
  return rate > 0 ? static_cast<double>(tokens) / rate : 0;
}

void AdmissionControl::observe_batch(size_t model, size_t tokens, double seconds) {
  if (seconds <= 0) {
    return;  // too quick for the clock: says nothing
  }
  const double rate = static_cast<double>(tokens) / seconds;
  const double before = rate_of(model);
  tokens_per_second_[model].store(before > 0 ? before + kRateWeight * (rate - before) : rate,
                                  std::memory_order_relaxed);
}

}  // namespace espalier::scheduler
