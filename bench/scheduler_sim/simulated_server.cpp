#include "bench/scheduler_sim/simulated_server.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace espalier::sim {
namespace {

using namespace scheduler;

bool nobody_waits_for(const Batch& batch) {
  return std::all_of(batch.tickets().begin(), batch.tickets().end(),
                     [](const Ticket& ticket) { return ticket.request->ended(); });
}

}  // namespace

Clock::time_point time_point(double seconds) {
  return Clock::time_point{} +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

SimulatedServer::SimulatedServer(size_t replica, const ServerSettings& settings,
                                 ServerListener& listener)
    : replica_(replica),
      settings_(settings),
      listener_(listener),
      queue_(std::make_shared<TicketQueue>(
          QueueLimits{settings.limits.queue_tickets_max, settings.limits.queue_tokens_max},
          turn_rules(settings.limits, 1), std::vector<PassCosts>{settings.costs})),
      noise_(mixed(settings.seed) + replica),
      spare_(std::make_unique<Batch>()) {
  costs_.emplace_back(settings.costs);
  chooser_ = make_chooser(settings.policy, costs_);
}

bool SimulatedServer::admit(const std::shared_ptr<RequestState>& request) {
  if (queue_->admit(request) != QueueAnswer::kAdmitted) return false;
  chooser_->admitted(request);
  return true;
}

double SimulatedServer::next_event() const {
  if (running_ == nullptr) return kNever;
  return settle_due_ ? std::min(settles_, ends_) : ends_;
}

void SimulatedServer::reach(double now) {
  if (running_ == nullptr) return;
  if (now >= settles_) settle_due_ = false;
  if (now >= ends_) end_running(now);
}

void SimulatedServer::plan(double now) {
  // Every round without a batch ends requests: those that are left over are wanted.
  while (settled_ == nullptr && (running_ == nullptr || !settle_due_) && queue_->has_tickets()) {
    BatchPtr batch = spare_ != nullptr ? std::move(spare_) : std::make_unique<Batch>();
    const size_t waiting = queue_->depth().tickets;
    if (!chooser_->plan_next(*queue_, BatchRules::of(settings_.limits), time_point(now), *batch)) {
      if (queue_->depth().tickets >= waiting)
        throw std::logic_error("tickets wait, none is chosen");
      continue;
    }
    if (!queue_->dispatch(batch->choice)) throw std::logic_error("a chosen ticket does not wait");
    mark_taken(*batch, time_point(now));
    listener_.on_dispatch(replica_, *batch, now);
    if (running_ == nullptr) {
      start(std::move(batch), now);
    } else {
      settled_ = std::move(batch);
    }
  }
}

void SimulatedServer::start(BatchPtr batch, double now) {
  if (nobody_waits_for(*batch)) {
    batch->choice.clear();
    spare_ = std::move(batch);
    return;
  }
  const double factor = settings_.noise == 0 ? 1 : std::exp(settings_.noise * noise_.normal());
  pass_seconds_ = settings_.truth.seconds(batch->work) * factor;
  running_ = std::move(batch);
  started_ = now;
  ends_ = now + pass_seconds_;
  settles_ = ends_ - std::min(settings_.lead, pass_seconds_);
  settle_due_ = settles_ > now;
  abandoned_ = false;
}

void SimulatedServer::end_running(double now) {
  BatchPtr batch = std::move(running_);
  if (!abandoned_) {
    costs_.front().observe(batch->work, now - started_);
    for (size_t s = 0; s < batch->tickets().size(); ++s) {
      const Ticket& ticket = batch->tickets()[s];
      if (ticket.request->ended()) continue;
      ticket.request->fulfil(ticket.index, {}, batch->new_rows[s], time_point(now));
    }
  }
  listener_.on_batch_end(replica_, *batch, started_, now, abandoned_);
  batch->choice.clear();
  spare_ = std::move(batch);
  if (settled_ != nullptr) start(std::move(settled_), now);
}

void SimulatedServer::requests_failed(double now) {
  if (running_ == nullptr || abandoned_ || !nobody_waits_for(*running_)) return;
  const double layer = pass_seconds_ / static_cast<double>(settings_.layers);
  ends_ = std::min(ends_, started_ + layer * std::ceil((now - started_) / layer));
  ends_ = std::max(ends_, now);
  settle_due_ = false;
  abandoned_ = true;
}

}  // namespace espalier::sim
