// Requests in a queue, for the tests of the classes between admission and the forward pass.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "scheduler/batch_policy.h"
#include "scheduler/pending_request.h"
#include "scheduler/ticket_queue.h"
#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler::testing {

inline constexpr size_t kNoLimit = size_t{1} << 40U;

inline std::shared_ptr<TicketQueue> queue_of(size_t models = 1, size_t tickets_max = kNoLimit,
                                             const SchedulerLimits& limits = {},
                                             size_t tokens_max = kNoLimit) {
  return std::make_shared<TicketQueue>(QueueLimits{tickets_max, tokens_max},
                                       turn_rules(limits, models), std::vector<PassCosts>(models));
}

inline std::shared_ptr<RequestState> admit(const std::shared_ptr<TicketQueue>& queue,
                                           Submission submission) {
  auto request = std::make_shared<RequestState>(std::move(submission), queue, Clock::now());
  return queue->admit(request) == QueueAnswer::kAdmitted ? request : nullptr;
}

inline Submission for_model(size_t model, Submission submission) {
  submission.model = model;
  return submission;
}

inline Submission from_client(uint64_t client, Submission submission, double weight = 1) {
  submission.client = client;
  submission.weight = weight;
  return submission;
}

inline BatchRules no_bounds() {
  BatchRules rules;
  rules.rows_max = kNoLimit;
  rules.full_rows_max = kNoLimit;
  rules.sequences_max = kNoLimit;
  rules.seconds_max = 1e9;
  return rules;
}

/// A choice under `rules`, with nothing known about times unless `coefficients` tell.
inline Choice choose(TicketQueue& queue, const BatchRules& rules,
                     engine::DedupMode dedup = engine::DedupMode::kTrie,
                     const CostCoefficients& coefficients = {},
                     Clock::time_point now = Clock::now()) {
  PlanBuilder builder(dedup);
  BatchPolicy policy(builder);
  Choice choice;
  queue.choose(policy, rules, std::vector<CostCoefficients>(8, coefficients), now, choice);
  return choice;
}

/// A batch of up to `tickets_max` tickets, out of the queue.
inline Choice take(TicketQueue& queue, size_t tickets_max, Clock::time_point now = Clock::now()) {
  BatchRules rules = no_bounds();
  rules.sequences_max = tickets_max;
  Choice choice = choose(queue, rules, engine::DedupMode::kTrie, {}, now);
  queue.dispatch(choice);
  return choice;
}

inline std::vector<size_t> indices(const std::vector<Ticket>& tickets) {
  std::vector<size_t> result;
  for (const Ticket& ticket : tickets) {
    result.push_back(ticket.index);
  }
  return result;
}

/// The first token of each.
inline std::vector<uint32_t> first_tokens(const std::vector<Ticket>& tickets) {
  std::vector<uint32_t> result;
  for (const Ticket& ticket : tickets) {
    result.push_back(ticket.token_ids().front());
  }
  return result;
}

/// The last token of each.
inline std::vector<uint32_t> last_tokens(const std::vector<Ticket>& tickets) {
  std::vector<uint32_t> result;
  for (const Ticket& ticket : tickets) {
    result.push_back(ticket.token_ids().back());
  }
  return result;
}

}  // namespace espalier::scheduler::testing
