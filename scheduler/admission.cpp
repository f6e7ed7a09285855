#include "scheduler/admission.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace espalier::scheduler {
namespace {

constexpr double kRateWeight = 0.2;  // of the newest batch in the moving average
constexpr double kRetryAfterSecondsMin = 1;
constexpr double kRetryAfterSecondsMax = 600;

}  // namespace

std::optional<Failure> AdmissionControl::never_fits(const Submission& submission) const {
  const size_t tickets = submission.sequences.size();
  if (tickets > limits_.queue_tickets_max) {
    return Failure{FailureKind::kNeverFits,
                   "the request has " + std::to_string(tickets) +
                       " inputs, more than the server's queue holds (" +
                       std::to_string(limits_.queue_tickets_max) + ")",
                   {}};
  }
  for (size_t i = 0; i < tickets; ++i) {
    const size_t tokens = submission.sequences[i].token_ids.size();
    if (tokens > limits_.sequence_tokens_max) {
      return Failure{FailureKind::kNeverFits,
                     "input " + std::to_string(i) + " has " + std::to_string(tokens) +
                         " tokens, more than the server takes (" +
                         std::to_string(limits_.sequence_tokens_max) + ")",
                     {}};
    }
  }
  return std::nullopt;
}

Failure AdmissionControl::queue_full(size_t tickets, const QueueDepth& depth) const {
  double seconds = kRetryAfterSecondsMin;
  const double rate = tokens_per_second_.load(std::memory_order_relaxed);
  if (rate > 0 && depth.tickets > 0) {
    const size_t free =
        limits_.queue_tickets_max - std::min(depth.tickets, limits_.queue_tickets_max);
    const auto must_leave = static_cast<double>(tickets - std::min(tickets, free));
    const double tokens_per_ticket =
        static_cast<double>(depth.tokens) / static_cast<double>(depth.tickets);
    seconds = std::ceil(must_leave * tokens_per_ticket / rate);
  }
  seconds = std::clamp(seconds, kRetryAfterSecondsMin, kRetryAfterSecondsMax);
  return {FailureKind::kQueueFull,
          "the queue is full: " + std::to_string(depth.tickets) + " inputs are waiting",
          std::chrono::seconds(static_cast<int64_t>(seconds))};
}

double AdmissionControl::predicted_seconds(size_t tokens) const {
  const double rate = tokens_per_second_.load(std::memory_order_relaxed);
  return rate > 0 ? static_cast<double>(tokens) / rate : 0;
}

void AdmissionControl::observe_batch(size_t tokens, double seconds) {
  if (seconds <= 0) {
    return;  // too quick for the clock: says nothing
  }
  const double rate = static_cast<double>(tokens) / seconds;
  const double before = tokens_per_second_.load(std::memory_order_relaxed);
  tokens_per_second_.store(before > 0 ? before + kRateWeight * (rate - before) : rate,
                           std::memory_order_relaxed);
}

}  // namespace espalier::scheduler
