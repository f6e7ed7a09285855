// The straightforward twin of the planner: a trie with one node a token and a std::map of children,
// walked in preorder. What one would write first, and what the planner's time is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/batch_plan.h"
#include "tests/reference/naive_trie.h"

namespace espalier::reference {

/// The rows and the maps of a kRadixMlp plan of `sequences`; neither nodes nor wanted rows.
inline engine::BatchPlan map_trie_plan(std::span<const NaiveSequence> sequences) {
  struct Node {
    std::map<uint32_t, size_t> children;  // by token
    uint32_t token = 0;
    uint32_t position = 0;
    uint32_t row = 0;
  };
  std::vector<Node> nodes;
  std::map<uint64_t, size_t> roots;  // by tenant
  std::vector<std::vector<size_t>> paths;
  for (const NaiveSequence& sequence : sequences) {
    const auto [root, new_root] = roots.try_emplace(sequence.tenant, nodes.size());
    if (new_root) nodes.emplace_back();
    size_t at = root->second;
    std::vector<size_t>& path = paths.emplace_back();
    for (const uint32_t token : sequence.ids) {
      const auto [child, new_child] = nodes[at].children.try_emplace(token, nodes.size());
      at = child->second;
      if (new_child) {
        nodes.emplace_back();
        nodes[at].token = token;
        nodes[at].position = static_cast<uint32_t>(path.size());
      }
      path.push_back(at);
    }
  }

  engine::BatchPlan plan;
  plan.dedup = engine::DedupMode::kRadixMlp;
  for (const auto& [tenant, root] : roots) {
    std::vector<size_t> stack = {root};
    while (!stack.empty()) {
      Node& node = nodes[stack.back()];
      if (stack.back() != root) node.row = detail::add_row(plan, node.token, node.position);
      stack.pop_back();
      for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
        stack.push_back(child->second);
      }
    }
  }
  std::vector<std::vector<uint32_t>> rows;
  for (const std::vector<size_t>& path : paths) {
    rows.emplace_back();
    for (const size_t node : path) rows.back().push_back(nodes[node].row);
  }
  detail::naive_maps(plan, rows);
  return plan;
}

}  // namespace espalier::reference
