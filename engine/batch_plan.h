// The plan of one batch for one model, in compact rows: what the scheduler hands to a forward pass.
//
// S sequences hold N tokens (full rows). Tokens that agree in everything from the start of their
// sequence share one compact row; there are C <= N of them, numbered in depth-first preorder of the
// prefix trie. A path-compressed node owns rows [begin, end); all of its descendants own
// [end, subtree_end). Key row j is visible to query row i exactly when
//     j <= i < subtree_end(node of j).
//
// Plain data: whoever holds a plan may read it from any thread; nobody changes it once it is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::engine {

/// How a batch avoids computing shared prefixes twice.
enum class DedupMode : uint8_t {
  kTrie,      // one row per distinct prefix, attention included
  kRadixMlp,  // one row per distinct prefix for position-wise work, attention per sequence
  kOff,       // every token of every sequence: the trie is a forest of S separate chains
};

/// `parent` of a root.
inline constexpr uint32_t kNoParent = UINT32_MAX;

/// One path-compressed node. Never empty: begin < end <= subtree_end.
struct TrieNode {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t subtree_end = 0;
  uint32_t parent = kNoParent;  // index into BatchPlan::nodes, smaller than this node's own
  uint32_t position = 0;        // position in its sequences of the node's first token
};

/// Where a sequence ends: `row` is its last token's row, within `node` (not always at its end).
struct SequenceEnd {
  uint32_t node = 0;
  uint32_t row = 0;
};

struct BatchPlan {
  DedupMode dedup = DedupMode::kTrie;
  std::vector<uint32_t> token_ids;  // (C)
  std::vector<uint32_t> positions;  // (C) position in the sequence, for RoPE
  std::vector<TrieNode> nodes;    // preorder; several roots are allowed (one per tenant, at least)
  std::vector<SequenceEnd> ends;  // (S) in the order in which the sequences were given
  std::vector<uint32_t> wanted_rows;  // (W) sorted, unique: final hidden states that will be read

  // Maps between full and compact rows; built for kRadixMlp, empty otherwise.
  std::vector<uint32_t> gather;            // (C) compact row -> the first full row that holds it
  std::vector<uint32_t> scatter;           // (N) full row -> its compact row
  std::vector<uint32_t> sequence_offsets;  // (S+1) first full row of each sequence, then N

  /// C: rows that position-wise work is done on.
  size_t compact_rows() const { return token_ids.size(); }
};

}  // namespace espalier::engine
