#include "scheduler/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "scheduler/admission.h"
#include "scheduler/pending_request.h"
#include "scheduler/pipeline.h"
#include "scheduler/programmer_error.h"
#include "scheduler/ticket_queue.h"
#include "scheduler/worker.h"

namespace espalier::scheduler {
namespace {

// Rows are numbered in 32 bits, and one sequence may come on top of a batch's budget.
constexpr size_t kLimitMax = size_t{1} << 30U;

void check_configuration(const std::vector<ModelPasses>& models, const SchedulerLimits& limits) {
  if (models.empty()) {
    throw std::invalid_argument("the scheduler needs at least one model");
  }
  for (const ModelPasses& model : models) {
    if (model.main == nullptr) {
      throw std::invalid_argument("the scheduler was given a null model");
    }
    if (model.main == model.interlude) {
      throw std::invalid_argument("a model's interludes need a pass of their own");
    }
  }
  const auto check = [](size_t value, const char* name) {
    if (value == 0 || value > kLimitMax) {
      throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                                  "; it must lie in 1 … " + std::to_string(kLimitMax));
    }
  };
  check(limits.batch_rows_max, "batch_rows_max");
  check(limits.batch_full_rows_max, "batch_full_rows_max");
  check(limits.sequence_tokens_max, "sequence_tokens_max");
  check(limits.batch_sequences_max, "batch_sequences_max");
  if (limits.queue_tickets_max == 0 || limits.queue_tokens_max == 0) {
    throw std::invalid_argument("a queue that holds nothing");
  }
  check(limits.interludes.length_ratio, "interludes.length_ratio");
  if (!(limits.batch_seconds_max > 0)) {
    throw std::invalid_argument("batch_seconds_max must be above 0");
  }
  if (!(limits.interludes.share_max >= 0 && limits.interludes.share_max < 1)) {
    throw std::invalid_argument("interludes.share_max must be at least 0 and below 1");
  }
}

CostModels cost_models(const std::vector<ModelPasses>& models) {
  CostModels costs;
  for (const ModelPasses& model : models) {
    costs.emplace_back(model.costs);
  }
  return costs;
}

std::shared_ptr<TicketQueue> make_queue(const std::vector<ModelPasses>& models,
                                        const SchedulerLimits& limits) {
  std::vector<PassCosts> costs;
  for (const ModelPasses& model : models) {
    costs.push_back(model.costs);
  }
  return std::make_shared<TicketQueue>(
      QueueLimits{limits.queue_tickets_max, limits.queue_tokens_max},
      turn_rules(limits, models.size()), std::move(costs));
}

void check_contract(const Submission& submission, size_t models) {
  if (submission.model >= models) {
    programmer_error("submitted to a model that does not exist", submission.model, models);
  }
  if (!(submission.weight > 0)) {
    programmer_error("a client whose weight is not above 0");
  }
  if (submission.sequences.empty()) {
    programmer_error("an empty submission");
  }
  for (size_t i = 0; i < submission.sequences.size(); ++i) {
    if (submission.sequences[i].token_ids.empty()) {
      programmer_error("a sequence without tokens", i, submission.sequences.size());
    }
  }
}

}  // namespace

struct Scheduler::Impl {
  Impl(const std::vector<ModelPasses>& models_in, const SchedulerLimits& limits,
       SchedulerObserver* observer)
      : models(models_in.size()),
        admission(limits, models_in.size()),
        costs(cost_models(models_in)),
        queue(make_queue(models_in, limits)),
        worker(models_in, limits, costs, admission, observer),
        pipeline(limits, costs, *queue, worker) {}

  /// Answers whatever is open with kShuttingDown; returns how many requests that were.
  size_t abandon_open_requests() const {
    size_t abandoned = 0;
    for (const std::shared_ptr<RequestState>& request : queue->open_requests()) {
      abandoned += request->fail(shutting_down_failure()) ? 1 : 0;
    }
    return abandoned;
  }

  const size_t models;
  AdmissionControl admission;
  CostModels costs;
  std::shared_ptr<TicketQueue> queue;  // requests that outlive the scheduler hold weak references
  Worker worker;
  Pipeline pipeline;  // last: its threads use everything above
};

Scheduler::Scheduler(const std::vector<ModelPasses>& models, const SchedulerLimits& limits,
                     SchedulerObserver* observer) {
  check_configuration(models, limits);
  impl_ = std::make_unique<Impl>(models, limits, observer);
}

Scheduler::~Scheduler() {
  impl_->queue->close();
  impl_->abandon_open_requests();
}

Result<std::shared_ptr<PendingRequest>> Scheduler::submit(Submission submission) {
  check_contract(submission, impl_->models);
  if (std::optional<Failure> failure = impl_->admission.never_fits(submission)) {
    return tl::unexpected(std::move(*failure));
  }
  const QueueDepth demand = demand_of(submission);
  auto state = std::make_shared<RequestState>(std::move(submission), impl_->queue, Clock::now());
  auto handle = std::make_shared<RequestHandle>(state);
  switch (impl_->queue->admit(std::move(state))) {
    case QueueAnswer::kAdmitted:
      return handle;
    case QueueAnswer::kFull:
      return tl::unexpected(impl_->admission.queue_full(demand, impl_->queue->depths()));
    case QueueAnswer::kClosed:
      break;
  }
  return tl::unexpected(shutting_down_failure());
}

DrainReport Scheduler::drain(std::chrono::milliseconds timeout) {
  impl_->queue->close();
  if (impl_->queue->wait_until_all_ended(timeout)) {
    return {};
  }
  return {impl_->abandon_open_requests()};
}

QueueDepth Scheduler::queue_depth() const { return impl_->queue->depth(); }

std::vector<QueueDepth> Scheduler::queue_depths() const { return impl_->queue->depths(); }

size_t Scheduler::submission_tokens_max() const { return impl_->admission.tokens_max(); }

double Scheduler::predicted_seconds(size_t model, size_t tokens) const {
  if (!impl_->admission.has_observed(model)) {
    return 0;
  }
  std::vector<QueueDepth> depths = impl_->queue->depths();
  depths[model].tokens += tokens;
  depths[model].cost += static_cast<double>(tokens);
  double seconds = 0;
  for (size_t m = 0; m < depths.size(); ++m) {
    seconds += std::max(impl_->admission.predicted_seconds(m, depths[m].tokens),
                        impl_->costs[m].coefficients().row * depths[m].cost);
  }
  return seconds;
}

}  // namespace espalier::scheduler
