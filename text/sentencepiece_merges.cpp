#include "text/sentencepiece_merges.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace espalier::text {
namespace {

/// SentencePiece's own limit is 16 characters unless the trainer is told otherwise. It keeps a
/// hostile file from quadratic time.
constexpr size_t kPieceBytesMax = 256;

}  // namespace

std::vector<Merge> sentencepiece_merges(const std::vector<std::string>& tokens,
                                        std::span<const float> scores) {
  if (tokens.size() != scores.size() || tokens.size() > UINT32_MAX) {
    throw std::invalid_argument("there are " + std::to_string(tokens.size()) + " tokens and " +
                                std::to_string(scores.size()) + " scores");
  }
  if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) {
    throw std::invalid_argument("a score is not a number");
  }
  std::unordered_map<std::string_view, uint32_t> ids;
  ids.reserve(tokens.size());
  for (uint32_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
  std::vector<Merge> merges;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (token.size() > kPieceBytesMax || ids.at(token) != id) continue;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(token.substr(cut));
      if (right != ids.end()) merges.push_back({left->second, right->second, id});
    }
  }
  std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
    return std::tuple(-scores[a.merged], a.merged, a.left, a.right) <
           std::tuple(-scores[b.merged], b.merged, b.left, b.right);
  });
  return merges;
}

}  // namespace espalier::text
