#include "server/service/memory_pool.h"

#include <algorithm>
#include <tuple>

namespace espalier::server {
namespace {

/// How often a waiting request asks whether it is still wanted.
constexpr std::chrono::milliseconds kWaitSlice{50};
constexpr size_t kKeptPart = 8;
/// For clients that have nothing.
constexpr size_t kNewcomersPart = 4;
constexpr size_t kSmallPart = 256;
constexpr size_t kMegabyte = 1'000'000;

/// "12 MB", rounded up.
std::string megabytes(size_t bytes) {
  return std::to_string((bytes + kMegabyte - 1) / kMegabyte) + " MB";
}

}  // namespace

void MemoryPool::Share::shrink_to(size_t bytes) {
  if (pool_ == nullptr || bytes >= bytes_) return;
  pool_->give_back(client_, bytes_ - bytes);
  bytes_ = bytes;
}

bool MemoryPool::is_small(size_t bytes) const { return bytes <= bytes_ / kSmallPart; }

bool MemoryPool::has_room(const Client& client, size_t bytes) const {
  size_t kept = 0;
  if (!is_small(bytes))
    kept = bytes_ / kKeptPart + (client.bytes > 0 ? bytes_ / kNewcomersPart : 0);
  return in_use_ + bytes <= bytes_ - kept;
}

/// Whether the large request at `place` is the next to get something.
bool MemoryPool::is_next(Place place) const {
  const auto order = [](const Waiting& waiting) {
    return std::tuple(waiting.client->bytes > 0, waiting.client->turn);
  };
  const auto first = std::ranges::min_element(
      waiting_, [&](const Waiting& a, const Waiting& b) { return order(a) < order(b); });
  return &*first == &*place;
}

void MemoryPool::give(Client& client, size_t bytes) {
  in_use_ += bytes;
  client.bytes += bytes;
  client.turn = turns_ += 2;
}

void MemoryPool::leave(Place place, Clients::iterator client) {
  waiting_.erase(place);
  --client->second.waiting;
  changed_.notify_all();  // the next one's turn may have come
}

void MemoryPool::forget_if_idle(Clients::iterator client) {
  if (client->second.bytes == 0 && client->second.waiting == 0) clients_.erase(client);
}

ApiError MemoryPool::never_fits(size_t bytes) const {
  ApiError error;
  error.kind = ErrorKind::kPayloadTooLarge;
  error.message = use_ + " this request would take up to " + megabytes(bytes) +
                  " of memory; the server has " + megabytes(bytes_ - bytes_ / kKeptPart) +
                  " for it. Send several smaller requests";
  error.code = kTooLargeCode;
  return error;
}

ApiError MemoryPool::none_left() const {
  ApiError error;
  error.kind = ErrorKind::kOverloaded;
  error.message = "the server has no memory left for " + use_ +
                  " more requests as large as this one; try again soon";
  return error;
}

Result<MemoryPool::Share> MemoryPool::take(uint64_t client_id, size_t bytes,
                                           const Interruption& interruption) {
  if (bytes == 0) return Share();
  const bool small = is_small(bytes);
  if (!small && bytes > bytes_ - bytes_ / kKeptPart) return tl::unexpected(never_fits(bytes));
  const auto gives_up_at = std::chrono::steady_clock::now() + kWaitMax;
  std::unique_lock lock(mutex_);
  // One that comes anew comes behind those that wait already, but before whom the last turn was.
  const auto entry = clients_.try_emplace(client_id, Client{0, 0, turns_ - 1}).first;
  Client& client = entry->second;
  if (has_room(client, bytes) && (small || waiting_.empty())) {
    give(client, bytes);
    return Share(*this, client_id, bytes);
  }
  Place place;
  try {
    place = waiting_.insert(waiting_.end(), {&client, bytes});
  } catch (...) {
    forget_if_idle(entry);
    throw;
  }
  ++client.waiting;
  const auto my_turn = [&] { return has_room(client, bytes) && (small || is_next(place)); };
  std::optional<ApiError> error;
  try {
    while (!changed_.wait_for(lock, kWaitSlice, my_turn) && !error) {
      lock.unlock();  // it may ask the kernel
      error = interruption();
      lock.lock();
      if (!error && std::chrono::steady_clock::now() >= gives_up_at) error = none_left();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    leave(place, entry);
    forget_if_idle(entry);
    throw;
  }
  leave(place, entry);
  if (error) {
    forget_if_idle(entry);
    return tl::unexpected(std::move(*error));
  }
  give(client, bytes);
  return Share(*this, client_id, bytes);
}

void MemoryPool::give_back(uint64_t client, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    const auto entry = clients_.find(client);
    entry->second.bytes -= bytes;
    forget_if_idle(entry);
  }
  changed_.notify_all();
}

size_t MemoryPool::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace espalier::server
