// A batch's trie as text, an indented line for each node.
//
// Thread contract: functions without state.
#pragma once

#include <string>

#include "server/debug/batch_recorder.h"

namespace espalier::server {

/// At most some thousands of lines; what is left out is said where it would be.
std::string trie_text(const RecordedTrie& trie);

}  // namespace espalier::server
