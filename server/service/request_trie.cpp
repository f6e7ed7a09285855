#include "server/service/request_trie.h"

#include <algorithm>
#include <utility>

#include "scheduler/plan_builder.h"
#include "server/debug/trie_outline.h"

namespace espalier::server {
namespace {

/// More than a page can draw, and than an answer should carry.
constexpr size_t kNodesMax = 1000;
constexpr size_t kTextTokensMax = 64;
constexpr size_t kTextBytesMax = 200;

/// What the node's first tokens say, cut at a character's end.
std::string text_of(std::span<const uint32_t> ids, const text::Tokenizer& tokenizer) {
  const bool cut_ids = ids.size() > kTextTokensMax;
  std::string text = tokenizer.decode(ids.first(std::min(ids.size(), kTextTokensMax)), false);
  const bool cut = cut_ids || text.size() > kTextBytesMax;
  if (text.size() > kTextBytesMax) {
    size_t end = kTextBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
  }
  if (cut) text += "…";
  return text;
}

}  // namespace

RequestTrie request_trie(std::span<const std::vector<uint32_t>> sequences,
                         const text::Tokenizer& tokenizer) {
  scheduler::PlanBuilder builder(engine::DedupMode::kTrie);
  for (const auto& ids : sequences) builder.add(0, ids, scheduler::WantedRows::kLast);
  engine::BatchPlan plan;
  builder.build(plan);

  RequestTrie trie;
  trie.inputs = sequences.size();
  trie.tokens = builder.full_rows();
  trie.rows = plan.compact_rows();
  RecordedTrie shape;
  shape.nodes = std::move(plan.nodes);
  shape.ends = std::move(plan.ends);
  const TrieOutline outline = outline_of(shape, kNodesMax, SIZE_MAX);
  trie.hidden_nodes = outline.all_nodes - outline.nodes.size();
  trie.nodes.reserve(outline.nodes.size());
  std::vector<size_t> path;  // the last node of each depth
  for (const OutlineNode& shown : outline.nodes) {
    path.resize(shown.depth);
    RequestTrie::Node node;
    if (!path.empty()) node.parent = path.back();
    node.position = shown.node.position;
    node.tokens = shown.rows();
    node.inputs = shown.sequences;
    node.text =
        text_of(std::span(plan.token_ids).subspan(shown.node.begin, node.tokens), tokenizer);
    path.push_back(trie.nodes.size());
    trie.nodes.push_back(std::move(node));
  }
  return trie;
}

}  // namespace espalier::server
