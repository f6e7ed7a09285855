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
  size_t request = 0;  // bytes at most of what is made of it, and while that is tokenized
  size_t inputs = 0;   // bytes at most of what is made of it, without tokens
};

/// Of a token, in a vector that doubles.
inline constexpr size_t kIdBytesAtMost = 8;

/// Of `body`, which may be malformed: then no more is taken than this before that shows.
/// `tokenizer_threads`: texts that are tokenized at once.
ParsingCost parsing_cost(std::string_view body, size_t tokenizer_threads);

}  // namespace espalier::server
