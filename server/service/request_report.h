// What a request turned out to be and cost, for headers, metrics and logs; filled as far as it came
// also when it fails.
#pragma once

#include <cstddef>

namespace espalier::server {

struct RequestReport {
  size_t inputs = 0;      // texts, lists of token ids, or documents
  size_t characters = 0;  // code points of the texts
  size_t tokens = 0;      // that the model saw
  size_t new_rows = 0;    // computed on its account: less than tokens where prefixes are shared
  bool computed = false;  // the model ran for it
  double tokenize_seconds = 0;
  double queue_seconds = 0;
  double compute_seconds = 0;
};

}  // namespace espalier::server
