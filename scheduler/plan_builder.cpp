#include "scheduler/plan_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

namespace espalier::scheduler {
namespace {

using engine::BatchPlan;
using engine::DedupMode;
using engine::SequenceEnd;
using engine::TrieNode;

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32U) | device();
}

constexpr uint32_t kWordBits = 64;

/// Sets bits [begin, end).
void set_bits(std::span<uint64_t> words, uint32_t begin, uint32_t end) {
  for (uint32_t bit = begin; bit < end;) {
    const uint32_t offset = bit % kWordBits;
    const uint32_t count = std::min(kWordBits - offset, end - bit);
    words[bit / kWordBits] |= (~uint64_t{0} >> (kWordBits - count)) << offset;
    bit += count;
  }
}

}  // namespace

uint32_t first_row(const BatchPlan& plan, size_t s) {
  uint32_t node = plan.ends[s].node;
  while (plan.nodes[node].parent != engine::kNoParent) node = plan.nodes[node].parent;
  return plan.nodes[node].begin;
}

PlanBuilder::PlanBuilder(DedupMode dedup) : dedup_(dedup), trie_(random_seed()) {}

size_t PlanBuilder::rows() const { return dedup_ == DedupMode::kOff ? full_rows_ : trie_.rows(); }

size_t PlanBuilder::new_rows(uint64_t tenant, std::span<const uint32_t> ids) const {
  return dedup_ == DedupMode::kOff ? ids.size() : trie_.new_rows(tenant, ids);
}

PassWork PlanBuilder::price(uint64_t tenant, std::span<const uint32_t> ids,
                            WantedRows wanted) const {
  const size_t rows = new_rows(tenant, ids);
  // RadixMLP's attention goes through every sequence by itself.
  const size_t shared = dedup_ == DedupMode::kTrie ? ids.size() - rows : 0;
  return {static_cast<double>(rows), attention_pairs(ids.size(), shared),
          static_cast<double>(wanted_rows(wanted, ids.size()))};
}

void PlanBuilder::add(uint64_t tenant, std::span<const uint32_t> ids, WantedRows wanted) {
  const size_t rows_before = rows();
  const uint32_t node = dedup_ == DedupMode::kOff ? 0 : trie_.insert(tenant, ids);
  full_rows_ += ids.size();
  const size_t new_rows = rows() - rows_before;
  sequences_.push_back({ids, node, static_cast<uint32_t>(new_rows), wanted});
  pairs_ += attention_pairs(ids.size(), dedup_ == DedupMode::kTrie ? ids.size() - new_rows : 0);
  wanted_ += static_cast<double>(wanted_rows(wanted, ids.size()));
}

void PlanBuilder::clear() {
  trie_.clear();
  sequences_.clear();
  full_rows_ = 0;
  pairs_ = 0;
  wanted_ = 0;
}

void PlanBuilder::build(BatchPlan& plan) {
  plan.dedup = dedup_;
  plan.token_ids.resize(rows());
  plan.positions.resize(rows());
  plan.nodes.clear();
  plan.ends.resize(sequences_.size());
  if (dedup_ == DedupMode::kOff) {
    lay_out_chains(plan);
  } else {
    lay_out_trie(plan);
  }
  collect_wanted_rows(plan);
  if (dedup_ == DedupMode::kRadixMlp) {
    build_maps(plan);
  } else {
    plan.gather.clear();
    plan.scatter.clear();
    plan.sequence_offsets.clear();
  }
}

void PlanBuilder::lay_out_chains(BatchPlan& plan) const {
  uint32_t row = 0;
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const std::span<const uint32_t> ids = sequences_[s].ids;
    const uint32_t end = row + static_cast<uint32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), plan.token_ids.begin() + row);
    std::iota(plan.positions.begin() + row, plan.positions.begin() + end, 0U);
    plan.nodes.push_back({row, end, end, engine::kNoParent, 0});
    plan.ends[s] = {static_cast<uint32_t>(s), end - 1};
    row = end;
  }
}

void PlanBuilder::lay_out_trie(BatchPlan& plan) {
  order_.arrange(trie_);
  placed_.resize(trie_.nodes().size());
  rows_laid_out_ = 0;
  for (const PrefixTrie::TenantRoot& root : order_.roots()) {
    lay_out_tenant(root.node, plan);
  }
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const Placed& placed = placed_[sequences_[s].trie_node];
    plan.ends[s] = {placed.plan_node, placed.last_row};
  }
}

/// Depth-first preorder below `root`, by links instead of a stack: depth is the users' choice.
void PlanBuilder::lay_out_tenant(uint32_t root, BatchPlan& plan) {
  uint32_t at = order_.first_child(root);
  while (at != root) {
    place_node(root, at, plan);
    if (order_.first_child(at) != PrefixTrie::kNone) {
      at = order_.first_child(at);
      continue;
    }
    // Everything below `at` is done: close it, and its ancestors as far as it was their last child.
    for (;;) {
      plan.nodes[placed_[at].plan_node].subtree_end = rows_laid_out_;
      if (order_.next_sibling(at) != PrefixTrie::kNone) {
        at = order_.next_sibling(at);
        break;
      }
      at = trie_.nodes()[at].parent;
      if (at == root) {
        break;
      }
    }
  }
}

void PlanBuilder::place_node(uint32_t root, uint32_t trie_node, BatchPlan& plan) {
  const PrefixTrie::Node& node = trie_.nodes()[trie_node];
  const uint32_t begin = rows_laid_out_;
  const uint32_t end = begin + node.length;
  rows_laid_out_ = end;
  std::copy_n(node.tokens, node.length, plan.token_ids.begin() + begin);
  std::iota(plan.positions.begin() + begin, plan.positions.begin() + end, node.position);

  // The trie also splits where a sequence ends; a plan's node does so only where paths branch.
  const bool only_child = order_.first_child(node.parent) == trie_node &&
                          order_.next_sibling(trie_node) == PrefixTrie::kNone;
  if (node.parent != root && only_child) {
    plan.nodes.back().end = end;
  } else {
    const uint32_t parent =
        node.parent == root ? engine::kNoParent : placed_[node.parent].plan_node;
    plan.nodes.push_back({begin, end, end, parent, node.position});
  }
  placed_[trie_node] = {static_cast<uint32_t>(plan.nodes.size() - 1), end - 1};
}

void PlanBuilder::collect_wanted_rows(BatchPlan& plan) {
  wanted_bits_.assign(plan.compact_rows() / kWordBits + 1, 0);
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const SequenceEnd& end = plan.ends[s];
    if (sequences_[s].wanted == WantedRows::kLast) {
      set_bits(wanted_bits_, end.row, end.row + 1);
      continue;
    }
    if (sequences_[s].wanted == WantedRows::kFirst) {
      const uint32_t row = first_row(plan, s);
      set_bits(wanted_bits_, row, row + 1);
      continue;
    }
    uint32_t rows_end = end.row + 1;  // of its last node the sequence may hold the beginning alone
    for (uint32_t n = end.node; n != engine::kNoParent; n = plan.nodes[n].parent) {
      set_bits(wanted_bits_, plan.nodes[n].begin, std::min(rows_end, plan.nodes[n].end));
      rows_end = UINT32_MAX;
    }
  }
  plan.wanted_rows.clear();
  for (uint32_t w = 0; w < wanted_bits_.size(); ++w) {
    for (uint64_t word = wanted_bits_[w]; word != 0; word &= word - 1) {
      plan.wanted_rows.push_back(w * kWordBits + static_cast<uint32_t>(std::countr_zero(word)));
    }
  }
}

/// RadixMLP's index maps: scatter (full row -> compact row) and gather (compact row -> the first
/// full row that holds it).
void PlanBuilder::build_maps(BatchPlan& plan) const {
  plan.gather.resize(rows());
  plan.scatter.resize(full_rows_);
  plan.sequence_offsets.resize(sequences_.size() + 1);
  auto next_offset = static_cast<uint32_t>(full_rows_);
  plan.sequence_offsets.back() = next_offset;
  // From the last sequence to the first, each from its end to its start: the writer that stays in
  // `gather` is the first sequence that holds the row.
  for (size_t s = sequences_.size(); s-- > 0;) {
    uint32_t rows_end = plan.ends[s].row + 1;
    for (uint32_t n = plan.ends[s].node; n != engine::kNoParent; n = plan.nodes[n].parent) {
      const TrieNode& node = plan.nodes[n];
      const uint32_t count = std::min(rows_end, node.end) - node.begin;
      next_offset -= count;
      std::iota(plan.scatter.begin() + next_offset, plan.scatter.begin() + next_offset + count,
                node.begin);
      std::iota(plan.gather.begin() + node.begin, plan.gather.begin() + node.begin + count,
                next_offset);
      rows_end = UINT32_MAX;
    }
    plan.sequence_offsets[s] = next_offset;
  }
}

}  // namespace espalier::scheduler
