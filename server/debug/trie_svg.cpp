#include "server/debug/trie_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "server/debug/trie_outline.h"

namespace espalier::server {
namespace {

constexpr size_t kNodesMax = 2000;
constexpr size_t kDepthMax = 47;
// Pixels.
constexpr double kWidth = 1400;
constexpr double kMargin = 12;
constexpr double kTop = 62;
constexpr double kLevel = 26;
constexpr double kGap = 1.5;
constexpr double kLetter = 6.4;  // of a 11-pixel label, on average
/// Narrower boxes could not be told from their neighbours.
constexpr double kNarrowest = 0.4;

struct Colour {
  const char* fill;
  const char* label;
};

/// By how many sequences share a node, a step for each doubling: pale for one's own rows.
Colour colour_of(size_t sequences) {
  constexpr std::array<Colour, 7> kSteps{{{"#eef3ea", "#222"},
                                          {"#d3e6c5", "#222"},
                                          {"#aed69b", "#222"},
                                          {"#7fc06f", "#222"},
                                          {"#4fa154", "#fff"},
                                          {"#2b7d40", "#fff"},
                                          {"#14572c", "#fff"}}};
  const auto doublings = static_cast<size_t>(std::bit_width(std::max<size_t>(1, sequences)) - 1);
  return kSteps[std::min(doublings, kSteps.size() - 1)];
}

/// The longest of the label's forms that fits into `width`, or none.
std::string label_of(const OutlineNode& node, double width) {
  const std::array forms{
      fmt::format("{} token{}, {} sequence{}", node.rows(), node.rows() == 1 ? "" : "s",
                  node.sequences, node.sequences == 1 ? "" : "s"),
      fmt::format("{} × {}", node.rows(), node.sequences), fmt::format("{}", node.rows())};
  for (const std::string& form : forms) {
    if (static_cast<double>(form.size()) * kLetter + 8 <= width) return form;
  }
  return {};
}

std::string box_of(const OutlineNode& node, double pixels_a_row) {
  const double x = kMargin + node.node.begin * pixels_a_row;
  const double y = kTop + static_cast<double>(node.depth) * kLevel;
  const double width = static_cast<double>(node.subtree_rows()) * pixels_a_row;
  const double drawn = std::max(kNarrowest, width > 4 * kGap ? width - kGap : width);
  const Colour colour = colour_of(node.sequences);
  std::string box = fmt::format(
      R"(<g><title>{} tokens of its own at position {}; {} sequences share them, {} end here; subtree {} rows)",
      node.rows(), node.node.position, node.sequences, node.ends, node.subtree_rows());
  if (node.hidden_nodes > 0) box += fmt::format("; {} nodes below left out", node.hidden_nodes);
  box += fmt::format(
      R"(</title><rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}"/>)", x, y,
      drawn, kLevel - kGap, colour.fill);
  if (const std::string label = label_of(node, width); !label.empty()) {
    box += fmt::format(R"(<text x="{:.2f}" y="{:.1f}" fill="{}">{}</text>)", x + 4, y + 16.5,
                       colour.label, label);
  }
  return box + "</g>\n";
}

}  // namespace

std::string trie_svg(const RecordedTrie& trie) {
  const TrieOutline outline = outline_of(trie, kNodesMax, kDepthMax);
  const double rows = trie.nodes.empty() ? 1 : static_cast<double>(trie.nodes.back().subtree_end);
  const double pixels_a_row = (kWidth - 2 * kMargin) / rows;
  std::string boxes;
  size_t levels = 1;
  size_t drawn = 0;
  for (const OutlineNode& node : outline.nodes) {
    if (static_cast<double>(node.subtree_rows()) * pixels_a_row < kNarrowest) continue;
    boxes += box_of(node, pixels_a_row);
    levels = std::max(levels, node.depth + 1);
    ++drawn;
  }
  std::string legend =
      "Width: rows, as they lie in memory. A box spans its own tokens, at its left, and all below "
      "it. Labels: own tokens × sequences that share them; darker: more of those.";
  if (drawn < outline.all_nodes)
    legend += fmt::format(" {} of {} nodes drawn, those with the largest subtrees.", drawn,
                          outline.all_nodes);
  const double height = kTop + static_cast<double>(levels) * kLevel + kMargin;
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{2}" y="24" font-size="15" fill="#222">{3}</text>
<text x="{2}" y="46" fill="#555">{4}</text>
)",
             kWidth, height, kMargin, headline_of(trie), legend) +
         boxes + "</svg>\n";
}

}  // namespace espalier::server
