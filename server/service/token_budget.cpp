#include "server/service/token_budget.h"

namespace espalier::server {

std::optional<ApiError> TokenBudget::take(size_t tokens) {
  const size_t before = taken_.fetch_add(tokens, std::memory_order_relaxed);
  if (before <= most_ && tokens <= most_ - before) return std::nullopt;
  return too_many_tokens(param_, most_, "one request may have");
}

ApiError too_many_tokens(const std::string& param, size_t most, const char* reason) {
  return {ErrorKind::kInvalidRequest,
          "`" + param + "` has more tokens in all than " + reason + ": at most " +
              std::to_string(most) + ". Send several smaller requests",
          param,
          kTooLargeCode,
          {}};
}

}  // namespace espalier::server
