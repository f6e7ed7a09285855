#include "server/service/request_trie.h"

#include <algorithm>
#include <utility>

#include "scheduler/plan_builder.h"
#include "server/debug/trie_outline.h"
#include "text/utf8.h"

namespace espalier::server {
namespace {

/// More than a page can draw, and than an answer should carry.
constexpr size_t kNodesMax = 1000;
/// Of a longer text its beginning and its end are shown.
constexpr size_t kTokensShown = 48;
constexpr size_t kBytesShown = 120;

/// At most the first kBytesShown bytes, whole characters.
std::string_view beginning_of(std::string_view text) {
  return text.substr(0, text::character_boundary(text, std::min(text.size(), kBytesShown)));
}

/// At most the last kBytesShown bytes, whole characters.
std::string_view end_of(std::string_view text) {
  const size_t begin = text.size() - std::min(text.size(), kBytesShown);
  const size_t character = text::character_boundary(text, begin);
  if (character == begin) return text.substr(begin);
  return text.substr(character + text::decode_utf8(text, character).length);
}

/// What the node's tokens say, its middle left out if that is much.
std::string text_of(std::span<const uint32_t> ids, const text::Tokenizer& tokenizer) {
  const bool few = ids.size() <= 2 * kTokensShown;
  const std::string first = tokenizer.decode(few ? ids : ids.first(kTokensShown), false);
  if (few && first.size() <= 2 * kBytesShown) return first;
  const std::string last = few ? first : tokenizer.decode(ids.last(kTokensShown), false);
  // Tokens may split a character: at the seam the pieces are U+FFFD.
  constexpr std::string_view kPiece = "\xEF\xBF\xBD";
  std::string_view beginning = beginning_of(first);
  std::string_view end = end_of(last);
  while (!few && beginning.ends_with(kPiece)) beginning.remove_suffix(kPiece.size());
  while (!few && end.starts_with(kPiece)) end.remove_prefix(kPiece.size());
  return std::string(beginning) + " … " + std::string(end);
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
