// The prefix trie of one request's own inputs: what they share among themselves, whatever else was
// in their batch.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace espalier::server {

struct RequestTrie {
  struct Node {
    std::optional<size_t> parent;  // index into `nodes`, smaller than this node's own
    size_t position = 0;           // of its first token in its inputs
    size_t tokens = 0;             // rows
    size_t inputs = 0;             // that share them
    std::string text;              // what the tokens say; of much its beginning and end
  };
  size_t inputs = 0;
  size_t tokens = 0;        // of all inputs
  size_t rows = 0;          // distinct prefixes
  std::vector<Node> nodes;  // preorder; where there are too many, those with the most rows below them
  size_t hidden_nodes = 0;  // that were left out
};

/// `sequences` are not empty.
RequestTrie request_trie(std::span<const std::vector<uint32_t>> sequences,
                         const text::Tokenizer& tokenizer);

}  // namespace espalier::server
