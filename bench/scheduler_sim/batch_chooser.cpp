#include "bench/scheduler_sim/batch_chooser.h"

#include <deque>
#include <utility>

namespace espalier::sim {
namespace {

using namespace scheduler;
using engine::DedupMode;

class RealChooser final : public BatchChooser {
 public:
  RealChooser(DedupMode dedup, const CostModels& costs) : planner_(dedup, costs) {}

  void admitted(const std::shared_ptr<RequestState>&) override {}
  bool plan_next(TicketQueue& queue, const BatchRules& rules, Clock::time_point now,
                 Batch& batch) override {
    return planner_.plan_next(queue, rules, now, batch);
  }

 private:
  Planner planner_;
};

/// Keeps a line of its own beside the queue, which it uses for admission and dispatch alone. One
/// model.
class FifoChooser final : public BatchChooser {
 public:
  explicit FifoChooser(const CostModels& costs)
      : costs_(costs), builder_(DedupMode::kTrie), planner_(DedupMode::kTrie, costs) {}

  void admitted(const std::shared_ptr<RequestState>& request) override {
    for (size_t i = 0; i < request->sequences().size(); ++i) line_.push_back({request, i});
  }

  bool plan_next(TicketQueue& queue, const BatchRules& rules, Clock::time_point,
                 Batch& batch) override {
    const CostCoefficients coefficients = costs_.front().coefficients();
    batch.choice.clear();
    batch.version = queue.version();
    while (!line_.empty()) {
      const Ticket& ticket = line_.front();
      if (!ticket.request->ended()) {
        if (const auto reason = refusal(builder_, ticket.tenant(), ticket.token_ids(),
                                        ticket.wanted(), rules, coefficients, 1)) {
          batch.choice.closed = *reason;
          break;
        }
        builder_.add(ticket.tenant(), ticket.token_ids(), ticket.wanted());
        batch.choice.tickets.push_back(ticket);
      }
      line_.pop_front();
    }
    builder_.clear();
    batch.choice.least_turn = 0;
    if (batch.choice.tickets.empty()) return false;
    planner_.plan_tickets(batch);
    return true;
  }

 private:
  const CostModels& costs_;
  std::deque<Ticket> line_;
  PlanBuilder builder_;
  Planner planner_;
};

}  // namespace

std::string name_of(Policy policy) {
  switch (policy) {
    case Policy::kShared:
      return "shared";
    case Policy::kFifo:
      return "fifo";
    case Policy::kOff:
      break;
  }
  return "off";
}

std::vector<Policy> all_policies() { return {Policy::kShared, Policy::kFifo, Policy::kOff}; }

std::unique_ptr<BatchChooser> make_chooser(Policy policy, const CostModels& costs) {
  if (policy == Policy::kFifo) return std::make_unique<FifoChooser>(costs);
  const DedupMode dedup = policy == Policy::kShared ? DedupMode::kTrie : DedupMode::kOff;
  return std::make_unique<RealChooser>(dedup, costs);
}

}  // namespace espalier::sim
