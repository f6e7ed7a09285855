// A batch's trie as an icicle diagram: rows from left to right as they lie in memory, nodes under
// their parents. One self-contained picture, without scripts or fonts.
//
// Thread contract: functions without state.
#pragma once

#include <string>

#include "server/debug/batch_recorder.h"

namespace espalier::server {

/// At most two thousand boxes and 48 levels; what is left out is said above the diagram.
std::string trie_svg(const RecordedTrie& trie);

}  // namespace espalier::server
