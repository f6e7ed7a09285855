// How many tokens a request may have, counted while its inputs become ids: one that has too many
// ends before all of them are in memory.
//
// Thread contract: take() from any threads at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "server/api_error.h"

namespace espalier::server {

class TokenBudget {
 public:
  /// `most` tokens in all; `param` is the request's field that holds the inputs.
  TokenBudget(size_t most, std::string param) : most_(most), param_(std::move(param)) {}

  /// Takes those of one input; kInvalidRequest once they are too many.
  std::optional<ApiError> take(size_t tokens);

  size_t most() const { return most_; }

 private:
  const size_t most_;
  const std::string param_;
  std::atomic<size_t> taken_{0};
};

/// What a request is told that has more than `most` tokens; `reason` says for what those are too
/// many.
ApiError too_many_tokens(const std::string& param, size_t most, const char* reason);

}  // namespace espalier::server
