// What a JSON body will take in memory while a request is made of it, told from its bytes before it
// is parsed: a body of ten megabytes may hold a million small lists, and take hundreds.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <string_view>

namespace espalier::server {

struct ParsingCost {
  size_t parsing = 0;  // bytes at most while it is parsed, what is made of it included
  size_t request = 0;  // bytes at most of what is made of it, and of its tokens
};

/// Of `body`, which may be malformed: then no more is taken than this before that shows.
ParsingCost parsing_cost(std::string_view body);

}  // namespace espalier::server
