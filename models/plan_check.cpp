#include "models/plan_check.h"

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace espalier::models {
namespace {

using engine::BatchPlan;
using engine::TrieNode;

[[noreturn]] void fail(std::string_view what, size_t index, size_t value, size_t bound) {
  throw std::out_of_range("batch plan: " + std::string(what) + "[" + std::to_string(index) +
                          "] is " + std::to_string(value) + ", against " + std::to_string(bound));
}

void check_below(std::string_view what, std::span<const uint32_t> values, size_t bound) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= bound) fail(what, i, values[i], bound);
  }
}

void check_size(std::string_view what, size_t size, size_t expected) {
  if (size != expected) {
    throw std::out_of_range("batch plan: " + std::string(what) + " has " + std::to_string(size) +
                            " entries, against " + std::to_string(expected));
  }
}

/// Nodes in preorder: each starts where the one before it ends, inside its parent's subtree.
void check_nodes(const BatchPlan& plan) {
  size_t begin = 0;
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    const TrieNode& node = plan.nodes[n];
    const size_t rows = plan.compact_rows();
    if (node.begin != begin) fail("node.begin", n, node.begin, begin);
    if (node.end <= node.begin || node.end > rows) fail("node.end", n, node.end, rows);
    if (node.subtree_end < node.end || node.subtree_end > rows) {
      fail("node.subtree_end", n, node.subtree_end, rows);
    }
    begin = node.end;
    if (node.parent == engine::kNoParent) continue;
    if (node.parent >= n) fail("node.parent", n, node.parent, n);
    const TrieNode& parent = plan.nodes[node.parent];
    if (node.begin < parent.end || node.subtree_end > parent.subtree_end) {
      fail("node.subtree_end", n, node.subtree_end, parent.subtree_end);
    }
  }
  if (begin != plan.compact_rows()) fail("node.end", plan.nodes.size(), begin, plan.compact_rows());
}

void check_maps(const BatchPlan& plan) {
  const size_t full_rows = plan.scatter.size();
  check_size("gather", plan.gather.size(), plan.compact_rows());
  check_below("gather", plan.gather, full_rows);
  check_below("scatter", plan.scatter, plan.compact_rows());
  for (size_t row = 0; row < plan.gather.size(); ++row) {
    const uint32_t owner = plan.scatter[plan.gather[row]];
    if (owner != row) fail("scatter of gather", row, owner, row);
  }
  size_t first = 0;
  for (size_t s = 0; s < plan.sequence_offsets.size(); ++s) {
    const size_t offset = plan.sequence_offsets[s];
    if (offset < first || offset > full_rows) fail("sequence_offsets", s, offset, full_rows);
    first = offset;
  }
  const bool covered = !plan.sequence_offsets.empty() && plan.sequence_offsets.front() == 0 &&
                       plan.sequence_offsets.back() == full_rows;
  if (!covered) fail("sequence_offsets", plan.sequence_offsets.size(), first, full_rows);
}

}  // namespace

void check_plan(const BatchPlan& plan, size_t vocabulary, size_t max_positions) {
  check_size("positions", plan.positions.size(), plan.compact_rows());
  check_below("token_ids", plan.token_ids, vocabulary);
  check_below("positions", plan.positions, max_positions);
  check_below("wanted_rows", plan.wanted_rows, plan.compact_rows());
  for (size_t i = 1; i < plan.wanted_rows.size(); ++i) {
    if (plan.wanted_rows[i] <= plan.wanted_rows[i - 1]) {
      fail("wanted_rows", i, plan.wanted_rows[i], plan.wanted_rows[i - 1]);
    }
  }
  check_nodes(plan);
  if (plan.dedup == engine::DedupMode::kRadixMlp) check_maps(plan);
}

}  // namespace espalier::models
