// Properties of whole runs of the scheduler, over random traces: what every request and every batch
// may count on. The real queue and planner run on a fake clock (bench/scheduler_sim).

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/plan_builder.h"
#include "tests/property/random_traces.h"

namespace espalier::sim::testing {
namespace {

using namespace scheduler;

constexpr uint64_t kTraces = 1000;

/// What a policy must keep to, checked at each step of a run.
class RunChecks final : public RunWatcher {
 public:
  explicit RunChecks(const ServerSettings& settings)
      : rules_(BatchRules::of(settings.limits)),
        policy_(settings.policy),
        dedup_(policy_ == Policy::kOff ? engine::DedupMode::kOff : engine::DedupMode::kTrie),
        builder_(dedup_),
        costs_(settings.costs) {}

  void on_arrival(size_t number, const RequestState& state, Outcome outcome, double) override {
    Seen& seen = requests_[&state];
    seen.number = number;
    seen.dispatched.resize(state.sequences().size());
    if (outcome != Outcome::kOpen) return;
    for (size_t i = 0; i < state.sequences().size(); ++i) waiting_.insert({&state, i});
  }

  void on_dispatch(size_t, const Batch& batch, double) override {
    for (const Ticket& ticket : batch.tickets()) {
      Seen& seen = requests_.at(ticket.request.get());
      seen.state = ticket.request;
      std::vector<bool>& dispatched = seen.dispatched;
      EXPECT_FALSE(dispatched[ticket.index]) << "a ticket was dispatched twice";
      EXPECT_FALSE(ticket.request->ended()) << "a ticket was dispatched that nobody waits for";
      dispatched[ticket.index] = true;
      waiting_.erase({ticket.request.get(), ticket.index});
    }
    check_budgets(batch);
    check_rows(batch);
    check_accounts(batch);
    if (policy_ == Policy::kShared) check_no_twin_is_left(batch);
  }

  void on_batch_end(size_t, const Batch& batch, double started, double now,
                    bool abandoned) override {
    if (abandoned) return;
    costs_.observe(batch.work, now - started);
    rows_computed_ += batch.plan.compact_rows();
    const std::vector<size_t> rows = naive_new_rows(batch);
    for (size_t s = 0; s < rows.size(); ++s) {
      const auto found = requests_.find(batch.tickets()[s].request.get());
      if (found == requests_.end()) {
        rows_of_ended_ += rows[s];  // its request ended while the pass ran
      } else {
        found->second.new_rows += rows[s];
      }
    }
  }

  void on_end(size_t number, const RequestState& state, Outcome outcome, double) override {
    const auto found = requests_.find(&state);
    ASSERT_NE(found, requests_.end()) << "a request ended twice";
    EXPECT_EQ(found->second.number, number);
    const std::vector<bool>& dispatched = found->second.dispatched;
    if (outcome == Outcome::kDone) {
      EXPECT_EQ(std::count(dispatched.begin(), dispatched.end(), false), 0)
          << "a request was answered with a ticket that was never dispatched";
      EXPECT_EQ(found->second.state->take()->stats.new_rows, found->second.new_rows);
    }
    rows_of_ended_ += found->second.new_rows;
    EXPECT_EQ(state.ended(), outcome != Outcome::kRejected);
    for (size_t i = 0; i < dispatched.size(); ++i) waiting_.erase({&state, i});
    requests_.erase(found);
  }

  void on_drained(const TicketQueue& queue) override {
    EXPECT_TRUE(requests_.empty());
    EXPECT_TRUE(waiting_.empty());
    EXPECT_EQ(queue.depth().tickets, 0U);
    EXPECT_EQ(queue.depth().tokens, 0U);
    EXPECT_TRUE(queue.open_requests().empty());
    EXPECT_EQ(rows_of_ended_, rows_computed_) << "rows are on nobody's account, or on two";
  }

 private:
  struct Seen {
    size_t number = 0;
    std::vector<bool> dispatched;
    std::shared_ptr<RequestState> state;  // once a ticket of it was dispatched
    size_t new_rows = 0;                  // by the naive count
  };

  /// Rows, full rows, sequences and predicted time, but for the first ticket and for those that add
  /// nothing.
  void check_budgets(const Batch& batch) {
    builder_.clear();
    const CostCoefficients coefficients = costs_.coefficients();
    for (const Ticket& ticket : batch.tickets()) {
      const PassWork price = builder_.price(ticket.tenant(), ticket.token_ids());
      const bool first = builder_.sequences() == 0;
      const auto tokens = static_cast<double>(ticket.token_ids().size());
      const size_t sequences_before = builder_.sequences();
      const double stretch = 2 * price.rows <= tokens ? kStretch : 1;
      const double predicted = coefficients.seconds(builder_.work() + price);
      builder_.add(ticket.tenant(), ticket.token_ids(), ticket.wanted());
      if (first || (price.rows == 0 && price.pairs == 0)) continue;
      EXPECT_LE(builder_.rows(), rules_.rows_max);
      EXPECT_LE(builder_.full_rows(), rules_.full_rows_max);
      EXPECT_LT(sequences_before, rules_.sequences_max);
      EXPECT_LE(predicted, stretch * rules_.seconds_max);
    }
    EXPECT_EQ(batch.work.rows, static_cast<double>(builder_.rows()));
  }

  /// In sorted order a text shares with the one before it what it shares with any before it: all
  /// that is of the same tenant is computed once, nothing that is not.
  void check_rows(const Batch& batch) const {
    std::vector<std::pair<uint64_t, std::vector<uint32_t>>> texts;
    for (const Ticket& ticket : batch.tickets()) {
      const std::span<const uint32_t> ids = ticket.token_ids();
      texts.push_back({ticket.tenant(), {ids.begin(), ids.end()}});
    }
    std::sort(texts.begin(), texts.end());
    size_t rows = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto& [tenant, ids] = texts[i];
      size_t shared = 0;
      if (dedup_ != engine::DedupMode::kOff && i > 0 && texts[i - 1].first == tenant) {
        const auto& before = texts[i - 1].second;
        while (shared < std::min(ids.size(), before.size()) && ids[shared] == before[shared]) {
          ++shared;
        }
      }
      rows += ids.size() - shared;
    }
    EXPECT_EQ(batch.plan.compact_rows(), rows);
  }

  /// By ticket: what it shares with none before it of its tenant.
  std::vector<size_t> naive_new_rows(const Batch& batch) const {
    std::vector<size_t> rows;
    for (size_t s = 0; s < batch.tickets().size(); ++s) {
      const std::span<const uint32_t> ids = batch.tickets()[s].token_ids();
      size_t shared = 0;
      for (size_t t = 0; t < s && dedup_ != engine::DedupMode::kOff; ++t) {
        if (batch.tickets()[t].tenant() != batch.tickets()[s].tenant()) continue;
        const std::span<const uint32_t> before = batch.tickets()[t].token_ids();
        const auto parted = std::mismatch(ids.begin(), ids.end(), before.begin(), before.end());
        shared = std::max(shared, static_cast<size_t>(parted.first - ids.begin()));
      }
      rows.push_back(ids.size() - shared);
    }
    return rows;
  }

  void check_accounts(const Batch& batch) const {
    const std::vector<size_t> rows = naive_new_rows(batch);
    ASSERT_EQ(batch.new_rows.size(), rows.size());
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), batch.new_rows.begin()));
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), size_t{0}), batch.plan.compact_rows());
  }

  void check_no_twin_is_left(const Batch& batch) const {
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, size_t> taken;
    for (const Ticket& ticket : batch.tickets()) {
      const std::span<const uint32_t> ids = ticket.token_ids();
      ++taken[{ticket.tenant(), {ids.begin(), ids.end()}}];
    }
    for (const auto& [state, index] : waiting_) {
      EXPECT_EQ(taken.count({state->tenant(), state->sequences()[index].token_ids}), 0U)
          << "a text waits on although the batch computes it";
    }
  }

  const BatchRules rules_;
  const Policy policy_;
  const engine::DedupMode dedup_;
  PlanBuilder builder_;  // kept: a new one asks for a random seed
  CostModel costs_;      // sees what the server's sees, so it predicts the same
  std::map<const RequestState*, Seen> requests_;
  size_t rows_computed_ = 0;  // by passes that were not abandoned
  size_t rows_of_ended_ = 0;  // on the accounts of requests that have ended
  std::set<std::pair<const RequestState*, size_t>> waiting_;
};

class RandomTraces : public ::testing::TestWithParam<Policy> {};

TEST_P(RandomTraces, EveryRequestEndsOnceAndEveryBatchKeepsToItsBudgets) {
  size_t requests = 0, failed = 0;
  // The server's own policy is what is in question; the others check the simulator.
  const uint64_t traces = GetParam() == Policy::kShared ? kTraces : kTraces / 5;
  for (uint64_t seed = 0; seed < traces && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomRun run = random_run(seed);
    run.settings.server.policy = GetParam();
    run.settings.server.noise = seed % 3 == 0 ? 0.2 : 0;
    RunChecks checks(run.settings.server);
    const RunResult result = simulate(run.trace, run.settings, &checks);
    for (const Record& record : result.requests) {
      ++requests;
      failed += record.outcome != Outcome::kDone ? 1 : 0;
      EXPECT_NE(record.outcome, Outcome::kOpen);
    }
  }
  // The traces are worth something: there are answers, and there are failures.
  EXPECT_GT(requests, 20 * traces);
  EXPECT_GT(failed, requests / 100);
  EXPECT_LT(failed, requests / 2);
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomTraces,
                         ::testing::Values(Policy::kShared, Policy::kFifo, Policy::kOff),
                         [](const auto& param) { return name_of(param.param); });

TEST(SchedulerTraces, TheSameTraceGivesTheSameBatches) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto batches = [seed] {
      RandomRun run = random_run(seed);
      run.settings.server.noise = 0.1;
      std::vector<std::vector<double>> result;
      for (const BatchRecord& batch : simulate(run.trace, run.settings, nullptr).batches) {
        result.push_back({static_cast<double>(batch.sequences), static_cast<double>(batch.tokens),
                          batch.rows, batch.started, batch.ended});
      }
      return result;
    };
    const auto first = batches();
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, batches());
  }
}

}  // namespace
}  // namespace espalier::sim::testing
