// The naive twin of the scheduler's prefix trie and plan builder: what a plan is by definition, in
// quadratic time and memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/batch_plan.h"

namespace espalier::reference {

struct NaiveSequence {
  uint64_t tenant = 0;
  std::vector<uint32_t> ids;
  bool wants_all = false;  // every row of it is wanted, else the last
};

/// A prefix of a tenant's sequence. Ordered by tenant, then lexicographically, where a prefix comes
/// before whatever extends it: the canonical depth-first preorder.
using NaivePrefix = std::pair<uint64_t, std::vector<uint32_t>>;

inline NaivePrefix prefix_of(const NaiveSequence& sequence, size_t length) {
  return {sequence.tenant, {sequence.ids.begin(), sequence.ids.begin() + length}};
}

/// All distinct prefixes of `sequences`: one compact row each.
inline std::set<NaivePrefix> distinct_prefixes(std::span<const NaiveSequence> sequences) {
  std::set<NaivePrefix> prefixes;
  for (const NaiveSequence& sequence : sequences) {
    for (size_t length = 1; length <= sequence.ids.size(); ++length) {
      prefixes.insert(prefix_of(sequence, length));
    }
  }
  return prefixes;
}

namespace detail {

inline uint32_t add_row(engine::BatchPlan& plan, uint32_t token, uint32_t position) {
  plan.token_ids.push_back(token);
  plan.positions.push_back(position);
  return static_cast<uint32_t>(plan.token_ids.size() - 1);
}

inline void naive_maps(engine::BatchPlan& plan,
                       const std::vector<std::vector<uint32_t>>& rows_of_sequence) {
  plan.gather.assign(plan.compact_rows(), UINT32_MAX);
  plan.sequence_offsets = {0};
  for (const std::vector<uint32_t>& rows : rows_of_sequence) {
    for (const uint32_t row : rows) {
      if (plan.gather[row] == UINT32_MAX) {
        plan.gather[row] = static_cast<uint32_t>(plan.scatter.size());
      }
      plan.scatter.push_back(row);
    }
    plan.sequence_offsets.push_back(static_cast<uint32_t>(plan.scatter.size()));
  }
}

}  // namespace detail

/// The plan of `sequences`, none of them empty, by the definitions in engine/batch_plan.h.
inline engine::BatchPlan naive_plan(std::span<const NaiveSequence> sequences,
                                    engine::DedupMode dedup) {
  engine::BatchPlan plan;
  plan.dedup = dedup;
  std::vector<std::vector<uint32_t>> rows_of_sequence(sequences.size());
  std::vector<uint32_t> parent_row;  // by row, kNoParent for first tokens

  if (dedup == engine::DedupMode::kOff) {
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (size_t i = 0; i < sequences[s].ids.size(); ++i) {
        const uint32_t row = detail::add_row(plan, sequences[s].ids[i], static_cast<uint32_t>(i));
        parent_row.push_back(i == 0 ? engine::kNoParent : row - 1);
        rows_of_sequence[s].push_back(row);
      }
    }
  } else {
    std::map<NaivePrefix, uint32_t> row_of;
    for (const NaivePrefix& prefix : distinct_prefixes(sequences)) {
      const std::vector<uint32_t>& ids = prefix.second;
      row_of[prefix] = detail::add_row(plan, ids.back(), static_cast<uint32_t>(ids.size() - 1));
      const NaivePrefix above = {prefix.first, {ids.begin(), ids.end() - 1}};
      parent_row.push_back(ids.size() == 1 ? engine::kNoParent : row_of.at(above));
    }
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (size_t length = 1; length <= sequences[s].ids.size(); ++length) {
        rows_of_sequence[s].push_back(row_of.at(prefix_of(sequences[s], length)));
      }
    }
  }

  // A node is a longest run of rows in which each is the only child of the one before.
  const size_t rows = plan.compact_rows();
  std::vector<uint32_t> children(rows, 0);
  for (size_t row = 0; row < rows; ++row) {
    if (parent_row[row] != engine::kNoParent) {
      ++children[parent_row[row]];
    }
  }
  std::vector<uint32_t> node_of_row(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t above = parent_row[row];
    if (above != engine::kNoParent && children[above] == 1) {
      plan.nodes.back().end = row + 1;
    } else {
      const uint32_t parent = above == engine::kNoParent ? above : node_of_row[above];
      plan.nodes.push_back({row, row + 1, row + 1, parent, plan.positions[row]});
    }
    node_of_row[row] = static_cast<uint32_t>(plan.nodes.size() - 1);
    for (uint32_t n = node_of_row[row]; n != engine::kNoParent; n = plan.nodes[n].parent) {
      plan.nodes[n].subtree_end = row + 1;
    }
  }

  std::set<uint32_t> wanted;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const std::vector<uint32_t>& path = rows_of_sequence[s];
    plan.ends.push_back({node_of_row[path.back()], path.back()});
    wanted.insert(path.back());
    if (sequences[s].wants_all) {
      wanted.insert(path.begin(), path.end());
    }
  }
  plan.wanted_rows.assign(wanted.begin(), wanted.end());
  if (dedup == engine::DedupMode::kRadixMlp) {
    detail::naive_maps(plan, rows_of_sequence);
  }
  return plan;
}

/// The first field in which `a` and `b` differ, or null.
inline const char* first_difference(const engine::BatchPlan& a, const engine::BatchPlan& b) {
  const auto same_node = [](const engine::TrieNode& x, const engine::TrieNode& y) {
    return x.begin == y.begin && x.end == y.end && x.subtree_end == y.subtree_end &&
           x.parent == y.parent && x.position == y.position;
  };
  const auto same_end = [](const engine::SequenceEnd& x, const engine::SequenceEnd& y) {
    return x.node == y.node && x.row == y.row;
  };
  if (a.dedup != b.dedup) return "dedup";
  if (a.token_ids != b.token_ids) return "token_ids";
  if (a.positions != b.positions) return "positions";
  if (!std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node)) {
    return "nodes";
  }
  if (!std::equal(a.ends.begin(), a.ends.end(), b.ends.begin(), b.ends.end(), same_end)) {
    return "ends";
  }
  if (a.wanted_rows != b.wanted_rows) return "wanted_rows";
  if (a.gather != b.gather) return "gather";
  if (a.scatter != b.scatter) return "scatter";
  if (a.sequence_offsets != b.sequence_offsets) return "sequence_offsets";
  return nullptr;
}

/// RadixMLP's index maps as published: compact rows numbered by first occurrence.
struct FirstOccurrenceMaps {
  std::vector<uint32_t> compact_ids, scatter, gather;
};

/// `ids` and `positions` (N), `offsets` (S+1); sequences may be empty. Two tokens share a compact
/// row exactly when their sequences agree in (token, position) from their starts up to and
/// including them.
inline FirstOccurrenceMaps first_occurrence_maps(const std::vector<uint32_t>& ids,
                                                 const std::vector<uint32_t>& positions,
                                                 const std::vector<uint32_t>& offsets) {
  FirstOccurrenceMaps maps;
  std::vector<size_t> start_of(ids.size());
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (size_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      start_of[i] = offsets[s];
    }
  }
  const auto same_path = [&](size_t a, size_t b) {
    const size_t length = a - start_of[a];
    if (b - start_of[b] != length) {
      return false;
    }
    for (size_t i = 0; i <= length; ++i) {
      if (ids[start_of[a] + i] != ids[start_of[b] + i] ||
          positions[start_of[a] + i] != positions[start_of[b] + i]) {
        return false;
      }
    }
    return true;
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t first = 0;
    while (!same_path(first, i)) {
      ++first;
    }
    if (first == i) {
      maps.scatter.push_back(static_cast<uint32_t>(maps.gather.size()));
      maps.gather.push_back(static_cast<uint32_t>(i));
      maps.compact_ids.push_back(ids[i]);
    } else {
      maps.scatter.push_back(maps.scatter[first]);
    }
  }
  return maps;
}

}  // namespace espalier::reference
