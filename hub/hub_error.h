// What fetching a model from a hub can fail with. The messages say what to do.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

namespace espalier::hub {

/// The hub or the cache folder does not have what was asked for, or the machine cannot take it.
class HubError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Nobody answered, or not in time, or with a failure of their own: the same may work later, and a
/// model that is in the cache can be used meanwhile.
class NoAnswer : public HubError {
 public:
  explicit NoAnswer(const std::string& message, std::chrono::seconds retry_after_in = {},
                    bool worth_retrying_in = true)
      : HubError(message), retry_after(retry_after_in), worth_retrying(worth_retrying_in) {}

  std::chrono::seconds retry_after;  // as the other side asks; 0: it does not say
  bool worth_retrying;               // at once, that is
};

/// The caller wanted no more of it.
class Cancelled : public HubError {
 public:
  Cancelled() : HubError("stopped; what has been fetched is kept, and the next attempt goes on") {}
};

}  // namespace espalier::hub
