// Models take turns: whatever the clients of one send, the tickets of another wait for at most one
// batch of each of the others before their model has one, and inside a model its clients' order is
// what it would be without the others. Over random loads, choices and interludes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using testing::choose;
using testing::for_model;
using testing::from_client;
using testing::no_bounds;
using testing::queue_of;
using testing::submission_of;

constexpr size_t kSteps = 400;
constexpr size_t kShort = 6;  // tokens of the longest input of an interlude

/// A server's queue and its clients: in each step some send something, and one batch leaves.
class Load {
 public:
  Load(uint64_t seed, size_t models)
      : random_(seed), models_(models), queue_(queue_of(models, testing::kNoLimit, limits())) {
    for (size_t m = 0; m < models; ++m) hungry_.push_back(random_() % 2 == 0);
  }

  void arrive() {
    for (size_t m = 0; m < models_; ++m) {
      // A hungry model always has many batches waiting, of many clients; others now and then one.
      const size_t requests = hungry_[m] ? random_() % 8 : (random_() % 6 == 0 ? 1 : 0);
      for (size_t r = 0; r < requests; ++r) send(m);
    }
  }

  /// Of the model that was taken; models_ if nothing was.
  size_t run(bool interlude) {
    BatchRules rules = no_bounds();
    rules.rows_max = interlude ? 16 : 64;
    rules.interlude = interlude;
    if (interlude) rules.ticket_tokens_max = kShort;
    const Choice choice = choose(*queue_, rules);
    if (!queue_->dispatch(choice)) return models_;
    for (const Ticket& ticket : choice.tickets) {
      EXPECT_EQ(ticket.request->model(), choice.model);
      --waiting_[ticket.request->model()];
      if (ticket.token_ids().size() <= kShort) --short_[ticket.request->model()];
    }
    return choice.model;
  }

  bool waits(size_t model, bool short_ones) {
    return short_ones ? short_[model] > 0 : waiting_[model] > 0;
  }
  size_t models() const { return models_; }
  size_t below(size_t bound) { return random_() % bound; }

 private:
  static SchedulerLimits limits() {
    SchedulerLimits limits;
    limits.batch_rows_max = 64;
    limits.interludes.always_short_tokens = kShort;
    return limits;
  }

  void send(size_t model) {
    std::vector<std::vector<uint32_t>> texts(1 + random_() % 4);
    for (auto& text : texts) {
      text.resize(1 + random_() % 40);
      for (auto& id : text) id = static_cast<uint32_t>(random_() % 3);
      ++waiting_[model];
      if (text.size() <= kShort) ++short_[model];
    }
    const double weights[] = {0.5, 1, 4};
    requests_.push_back(
        admit(queue_, for_model(model, from_client(random_() % 5, submission_of(std::move(texts)),
                                                   weights[random_() % 3]))));
  }

  std::mt19937 random_;
  size_t models_;
  std::vector<bool> hungry_;
  std::shared_ptr<TicketQueue> queue_;
  std::vector<std::shared_ptr<RequestState>> requests_;
  std::map<size_t, size_t> waiting_, short_;  // tickets by model
};

/// Batches of others since a model began to wait for one.
class Patience {
 public:
  explicit Patience(size_t models) : passed_over_(models) {}

  /// `taken` had a batch while those waited for which `waited` says so.
  void batch(size_t taken, const std::vector<bool>& waited) {
    for (size_t m = 0; m < passed_over_.size(); ++m)
      passed_over_[m] = m == taken || !waited[m] ? 0 : passed_over_[m] + 1;
    longest_ = std::max(longest_, *std::max_element(passed_over_.begin(), passed_over_.end()));
  }
  size_t longest() const { return longest_; }

 private:
  std::vector<size_t> passed_over_;
  size_t longest_ = 0;
};

TEST(ModelTurns, NoModelIsPassedOverMoreOftenThanThereAreOthers) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Load load(seed, 2 + seed % 2);
    Patience batches(load.models()), interludes(load.models());
    for (size_t step = 0; step < kSteps; ++step) {
      load.arrive();
      const bool interlude = load.below(4) == 0;
      std::vector<bool> waited;
      for (size_t m = 0; m < load.models(); ++m) waited.push_back(load.waits(m, interlude));
      const size_t taken = load.run(interlude);
      if (std::none_of(waited.begin(), waited.end(), [](bool w) { return w; })) continue;
      ASSERT_LT(taken, load.models());
      (interlude ? interludes : batches).batch(taken, waited);
    }
    EXPECT_LE(batches.longest(), load.models() - 1) << seed;
    EXPECT_LE(interludes.longest(), load.models() - 1) << seed;
  }
}

/// First tokens of the batches that `model` has, while others may or may not be there.
std::vector<uint32_t> order_in(size_t model, bool with_others, uint64_t seed) {
  const auto queue = queue_of(2);
  std::mt19937 random(seed);
  std::vector<std::shared_ptr<RequestState>> requests;
  std::vector<uint32_t> order;
  BatchRules rules = no_bounds();
  rules.rows_max = 30;
  uint32_t number = 0;
  for (size_t step = 0; step < 40; ++step) {
    for (size_t r = random() % 4; r > 0; --r) {
      const std::vector<uint32_t> text(1 + random() % 25, ++number);
      const uint64_t client = random() % 4;
      requests.push_back(
          admit(queue, for_model(model, from_client(client, submission_of({text})))));
    }
    if (with_others) {  // of the same clients, and a hungry one
      for (uint64_t client : {1, 2, 9})
        requests.push_back(
            admit(queue, for_model(1 - model, from_client(client, submission_of({{7, 7, 7, 7}})))));
    }
    for (;;) {
      const Choice choice = choose(*queue, rules);
      if (!queue->dispatch(choice)) break;
      if (choice.model != model) continue;
      for (const Ticket& ticket : choice.tickets) order.push_back(ticket.token_ids().front());
      break;
    }
  }
  return order;
}

TEST(ModelTurns, ClientsOfAModelHaveTheOrderThatTheyWouldHaveAlone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto alone = order_in(0, false, seed);
    EXPECT_GT(alone.size(), 20U);
    EXPECT_EQ(order_in(0, true, seed), alone) << seed;
    EXPECT_EQ(order_in(1, true, seed), order_in(1, false, seed)) << seed;
  }
}

}  // namespace
}  // namespace espalier::scheduler
