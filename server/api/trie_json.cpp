#include "server/api/trie_json.h"

#include "server/api/json_request.h"

namespace espalier::server {

void append_trie_member(const std::optional<RequestTrie>& trie, std::string& out) {
  if (!trie) return;
  out += R"(,"trie":{"inputs":)" + std::to_string(trie->inputs) + R"(,"tokens":)" +
         std::to_string(trie->tokens) + R"(,"rows":)" + std::to_string(trie->rows) +
         R"(,"hidden_nodes":)" + std::to_string(trie->hidden_nodes) + R"(,"nodes":[)";
  bool first = true;
  for (const RequestTrie::Node& node : trie->nodes) {
    if (!first) out += ',';
    first = false;
    out += R"({"parent":)" + (node.parent ? std::to_string(*node.parent) : "null") +
           R"(,"position":)" + std::to_string(node.position) + R"(,"tokens":)" +
           std::to_string(node.tokens) + R"(,"inputs":)" + std::to_string(node.inputs) +
           R"(,"text":)";
    append_json_string(node.text, out);
    out += '}';
  }
  out += "]}";
}

}  // namespace espalier::server
