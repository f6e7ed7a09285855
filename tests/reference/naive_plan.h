// A batch plan built the slow, obvious way, to test models without the scheduler and the scheduler
// against: a trie with one node a token, numbered in preorder, then chains contracted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/batch_plan.h"

namespace espalier::reference {

using TokenIds = std::vector<uint32_t>;

/// Which final hidden states a plan wants.
enum class Wanted { kLastTokens, kAllRows };

/// One token of the trie; children in the order in which they were first inserted.
struct TrieToken {
  uint32_t id = 0;
  uint32_t position = 0;
  std::optional<size_t> parent;
  std::vector<size_t> children;
  uint32_t row = 0;
};

class NaivePlanner {
 public:
  /// `sequences`: none of them empty.
  NaivePlanner(std::span<const TokenIds> sequences, engine::DedupMode dedup) : dedup_(dedup) {
    for (const TokenIds& sequence : sequences) insert(sequence);
  }

  engine::BatchPlan plan(Wanted wanted) {
    engine::BatchPlan plan;
    plan.dedup = dedup_;
    number_rows(plan);
    std::set<uint32_t> wanted_rows;
    for (const std::vector<size_t>& path : paths_) {
      const uint32_t row = tokens_[path.back()].row;
      plan.ends.push_back({node_of(plan, row), row});
      wanted_rows.insert(row);
    }
    if (wanted == Wanted::kAllRows) {
      for (uint32_t row = 0; row < plan.compact_rows(); ++row) wanted_rows.insert(row);
    }
    plan.wanted_rows.assign(wanted_rows.begin(), wanted_rows.end());
    if (dedup_ == engine::DedupMode::kRadixMlp) build_maps(plan);
    return plan;
  }

  /// The compact row of token `index` of sequence `sequence`; after plan().
  uint32_t row_of(size_t sequence, size_t index) const {
    return tokens_[paths_[sequence][index]].row;
  }

 private:
  void insert(const TokenIds& sequence) {
    std::optional<size_t> at;
    std::vector<size_t> path;
    for (const uint32_t id : sequence) {
      std::vector<size_t>& siblings = at ? tokens_[*at].children : roots_;
      std::optional<size_t> found;
      for (const size_t child : siblings) {
        // Sequences never share in kOff: a sequence may only walk along tokens of its own.
        if (tokens_[child].id == id && dedup_ != engine::DedupMode::kOff) found = child;
      }
      if (!found) {
        found = tokens_.size();
        siblings.push_back(*found);  // before tokens_ grows and moves the siblings
        tokens_.push_back({id, static_cast<uint32_t>(path.size()), at, {}, 0});
      }
      at = found;
      path.push_back(*found);
    }
    paths_.push_back(path);
  }

  void number_rows(engine::BatchPlan& plan) {
    std::vector<size_t> stack(roots_.rbegin(), roots_.rend());
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      TrieToken& token = tokens_[at];
      token.row = static_cast<uint32_t>(plan.token_ids.size());
      plan.token_ids.push_back(token.id);
      plan.positions.push_back(token.position);
      add_to_nodes(plan, token);
      stack.insert(stack.end(), token.children.rbegin(), token.children.rend());
    }
  }

  /// A token continues its parent's node when it is the only child, else it opens a node.
  void add_to_nodes(engine::BatchPlan& plan, const TrieToken& token) const {
    uint32_t parent = engine::kNoParent;
    if (token.parent) {
      parent = node_of(plan, tokens_[*token.parent].row);
      if (tokens_[*token.parent].children.size() == 1) {
        plan.nodes[parent].end = token.row + 1;
      }
    }
    if (!token.parent || tokens_[*token.parent].children.size() != 1) {
      plan.nodes.push_back({token.row, token.row + 1, 0, parent, token.position});
    }
    for (uint32_t node = node_of(plan, token.row); node != engine::kNoParent;
         node = plan.nodes[node].parent) {
      plan.nodes[node].subtree_end = token.row + 1;
    }
  }

  static uint32_t node_of(const engine::BatchPlan& plan, uint32_t row) {
    for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
      if (plan.nodes[n].begin <= row && row < plan.nodes[n].end) return n;
    }
    return engine::kNoParent;
  }

  void build_maps(engine::BatchPlan& plan) const {
    plan.gather.assign(plan.compact_rows(), UINT32_MAX);
    plan.sequence_offsets.push_back(0);
    for (const std::vector<size_t>& path : paths_) {
      for (const size_t at : path) {
        const uint32_t row = tokens_[at].row;
        const auto full_row = static_cast<uint32_t>(plan.scatter.size());
        if (plan.gather[row] == UINT32_MAX) plan.gather[row] = full_row;
        plan.scatter.push_back(row);
      }
      plan.sequence_offsets.push_back(static_cast<uint32_t>(plan.scatter.size()));
    }
  }

  engine::DedupMode dedup_;
  std::vector<TrieToken> tokens_;
  std::vector<size_t> roots_;
  std::vector<std::vector<size_t>> paths_;  // per sequence, its tokens
};

/// The plan of `sequences`, none of them empty.
inline engine::BatchPlan naive_plan(std::span<const TokenIds> sequences, engine::DedupMode dedup,
                                    Wanted wanted = Wanted::kLastTokens) {
  return NaivePlanner(sequences, dedup).plan(wanted);
}

}  // namespace espalier::reference
