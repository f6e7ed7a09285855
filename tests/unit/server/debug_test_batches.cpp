#include "debug_test_batches.h"

namespace espalier::server {
namespace {

engine::BatchPlan plan_of(std::vector<engine::TrieNode> nodes,
                          std::vector<engine::SequenceEnd> ends) {
  engine::BatchPlan plan;
  plan.token_ids.resize(nodes.back().subtree_end);
  plan.positions.resize(plan.token_ids.size());
  for (const auto& node : nodes)
    for (uint32_t row = node.begin; row < node.end; ++row)
      plan.positions[row] = node.position + row - node.begin;
  plan.nodes = std::move(nodes);
  plan.ends = std::move(ends);
  return plan;
}

}  // namespace

engine::BatchPlan branching_plan() {
  return plan_of({{0, 4, 14, engine::kNoParent, 0},
                  {4, 6, 9, 0, 4},
                  {6, 9, 9, 1, 6},
                  {9, 14, 14, 0, 4},
                  {14, 20, 20, engine::kNoParent, 0}},
                 {{2, 8}, {1, 5}, {3, 13}, {4, 19}});
}

engine::BatchPlan wide_plan(size_t children) {
  const auto count = static_cast<uint32_t>(children);
  std::vector<engine::TrieNode> nodes{{0, 1, count + 1, engine::kNoParent, 0}};
  std::vector<engine::SequenceEnd> ends;
  for (uint32_t i = 1; i <= count; ++i) {
    nodes.push_back({i, i + 1, i + 1, 0, 1});
    ends.push_back({i, i});
  }
  return plan_of(std::move(nodes), std::move(ends));
}

engine::BatchPlan deep_plan(size_t length) {
  const auto count = static_cast<uint32_t>(length);
  std::vector<engine::TrieNode> nodes;
  std::vector<engine::SequenceEnd> ends;
  for (uint32_t i = 0; i < count; ++i) {
    nodes.push_back({i, i + 1, count, i == 0 ? engine::kNoParent : i - 1, i});
    ends.push_back({i, i});
  }
  return plan_of(std::move(nodes), std::move(ends));
}

scheduler::BatchReport report_of(const engine::BatchPlan& plan) {
  scheduler::BatchReport report;
  report.plan = &plan;
  report.sequences = plan.ends.size();
  report.compact_rows = plan.compact_rows();
  for (const auto& end : plan.ends) report.full_rows += plan.positions[end.row] + 1;
  return report;
}

RecordedTrie recorded(const engine::BatchPlan& plan) {
  BatchRecorder recorder;
  recorder.on_batch(report_of(plan));
  return recorder.trie();
}

}  // namespace espalier::server
