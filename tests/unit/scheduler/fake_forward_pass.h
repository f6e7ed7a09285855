// A forward pass whose hidden states are a hash of the path of token ids, read from the plan's
// nodes: a plan that is wrong in anything gives wrong states. H = 4.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/forward_pass.h"
#include "scheduler/request.h"

namespace espalier::scheduler::testing {

inline constexpr size_t kHidden = 4;

inline uint64_t extend_path(uint64_t path, uint32_t token, uint32_t position) {
  uint64_t z = path + 0x9e3779b97f4a7c15U * (token + 1U) + position;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  return z ^ (z >> 27U);
}

inline void append_state(uint64_t path, std::vector<float>& out) {
  for (unsigned i = 0; i < kHidden; ++i) {
    out.push_back(static_cast<float>((path >> (16U * i)) & 0xffffU));
  }
}

/// What the fake answers to `sequence`, computed from the sequence alone.
inline HiddenStates expected_states(const Sequence& sequence) {
  HiddenStates states;
  uint64_t path = 0;
  for (uint32_t i = 0; i < sequence.token_ids.size(); ++i) {
    path = extend_path(path, sequence.token_ids[i], i);
    if (sequence.wanted == WantedRows::kAll || i + 1 == sequence.token_ids.size()) {
      append_state(path, states);
    }
  }
  return states;
}

class FakeForwardPass final : public engine::ForwardPass {
 public:
  /// Called with each plan before it is computed; may block, may throw.
  std::function<void(const engine::BatchPlan&)> before_run;
  /// Called in each step, from 1 on; may block, may throw.
  std::function<void(size_t step)> in_step;
  size_t steps = 1;  // of each run, each followed by a pause

  size_t hidden_size() const override { return kHidden; }
  size_t runs() const { return runs_.load(); }            // that came to their end
  size_t abandoned() const { return abandoned_.load(); }  // that were told to stop

  engine::ConstMatView run(const engine::BatchPlan& plan,
                           const engine::PassProgress& progress) override {
    if (before_run) {
      before_run(plan);
    }
    for (size_t step = 1; step <= steps; ++step) {
      if (in_step) {
        in_step(step);
      }
      if (!progress(step, steps)) {
        ++abandoned_;
        return {};
      }
    }
    std::vector<uint64_t> paths(plan.compact_rows());
    for (const engine::TrieNode& node : plan.nodes) {
      uint64_t path = node.parent == engine::kNoParent ? 0 : paths[plan.nodes[node.parent].end - 1];
      for (uint32_t row = node.begin; row < node.end; ++row) {
        path = extend_path(path, plan.token_ids[row], plan.positions[row]);
        paths[row] = path;
      }
    }
    states_.clear();
    for (const uint32_t row : plan.wanted_rows) {
      append_state(paths[row], states_);
    }
    ++runs_;
    return {states_.data(), plan.wanted_rows.size(), kHidden};
  }

 private:
  std::vector<float> states_;
  std::atomic<size_t> runs_{0};
  std::atomic<size_t> abandoned_{0};
};

/// A door that forward passes wait at, and that a test opens.
class Door {
 public:
  /// Waits for a permit and uses it up.
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return permits_ > 0; });
    --permits_;
  }
  void let_in(size_t count) {
    const std::lock_guard lock(mutex_);
    permits_ += count;
    changed_.notify_all();
  }
  /// For ever.
  void open() { let_in(SIZE_MAX / 2); }
  /// Waits until `count` passes in all have come to the door.
  void wait_until_arrived(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  size_t arrived() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t permits_ = 0;
  size_t arrived_ = 0;
};

/// Sequences of the given ids, last row wanted.
inline Submission submission_of(std::vector<std::vector<uint32_t>> sequences, uint64_t tenant = 0) {
  Submission submission;
  submission.tenant = tenant;
  for (std::vector<uint32_t>& ids : sequences) {
    submission.sequences.push_back({std::move(ids), WantedRows::kLast});
  }
  return submission;
}

}  // namespace espalier::scheduler::testing
