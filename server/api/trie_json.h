// The prefix trie of a request as part of its answer.
//
// Thread contract: functions without state.
#pragma once

#include <optional>
#include <string>

#include "server/service/request_trie.h"

namespace espalier::server {

/// Appends `,"trie":{…}` if there is one.
void append_trie_member(const std::optional<RequestTrie>& trie, std::string& out);

}  // namespace espalier::server
