#include "server/debug/trie_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/debug/trie_outline.h"

namespace espalier::server {
namespace {

constexpr size_t kNodesMax = 2000;
/// Deeper nodes are not indented further: a chain of thousands would be mostly blanks.
constexpr size_t kIndentedDepthMax = 40;
constexpr size_t kDepthMax = 4000;

std::string indentation(size_t depth) {
  std::string text(2 * std::min(depth, kIndentedDepthMax), ' ');
  if (depth > kIndentedDepthMax) text += fmt::format("(depth {}) ", depth);
  return text;
}

}  // namespace

std::string trie_text(const RecordedTrie& trie) {
  const TrieOutline outline = outline_of(trie, kNodesMax, kDepthMax);
  std::string text = headline_of(trie) + "\n";
  text +=
      "A line is a node: its tokens, a row each, @ the first one's position; how many sequences "
      "share it; how many\nend in it; rows of its subtree.\n\n";
  // Nodes whose hidden descendants are still to be told, innermost last.
  std::vector<const OutlineNode*> open;
  const auto close_down_to = [&](size_t depth) {
    while (!open.empty() && open.back()->depth >= depth) {
      const OutlineNode& node = *open.back();
      open.pop_back();
      if (node.hidden_nodes == 0) continue;
      text += fmt::format("{}… {} smaller nodes below left out, {} rows\n",
                          indentation(node.depth + 1), node.hidden_nodes, node.hidden_rows);
    }
  };
  for (const OutlineNode& node : outline.nodes) {
    close_down_to(node.depth);
    text += fmt::format("{}{} tokens @ {}, shared by {}, ends {}, subtree {} rows\n",
                        indentation(node.depth), node.rows(), node.node.position, node.sequences,
                        node.ends, node.subtree_rows());
    open.push_back(&node);
  }
  close_down_to(0);
  if (outline.hidden_roots > 0) {
    text += fmt::format("… {} smaller roots left out, {} rows in their subtrees\n",
                        outline.hidden_roots, outline.hidden_root_rows);
  }
  if (outline.nodes.size() < outline.all_nodes) {
    text += fmt::format("\n{} of {} nodes shown, those with the largest subtrees.\n",
                        outline.nodes.size(), outline.all_nodes);
  }
  return text;
}

}  // namespace espalier::server
