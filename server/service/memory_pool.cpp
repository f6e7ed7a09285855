#include "server/service/memory_pool.h"

#include <algorithm>

namespace espalier::server {
namespace {

/// How often a waiting request asks whether it is still wanted.
constexpr std::chrono::milliseconds kWaitSlice{50};
constexpr size_t kKeptPart = 8;
constexpr size_t kSmallPart = 256;
constexpr size_t kMegabyte = 1'000'000;

/// "12 MB", rounded up.
std::string megabytes(size_t bytes) {
  return std::to_string((bytes + kMegabyte - 1) / kMegabyte) + " MB";
}

}  // namespace

void MemoryPool::Share::shrink_to(size_t bytes) {
  if (pool_ == nullptr || bytes >= bytes_) return;
  pool_->give_back(bytes_ - bytes);
  bytes_ = bytes;
}

bool MemoryPool::is_small(size_t bytes) const { return bytes <= bytes_ / kSmallPart; }

bool MemoryPool::has_room(size_t bytes) const {
  const size_t kept = is_small(bytes) ? 0 : bytes_ / kKeptPart;
  return in_use_ + bytes <= bytes_ - kept;
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

Result<MemoryPool::Share> MemoryPool::take(size_t bytes, const Interruption& interruption) {
  const bool small = is_small(bytes);
  if (!small && bytes > bytes_ - bytes_ / kKeptPart) return tl::unexpected(never_fits(bytes));
  const auto gives_up_at = std::chrono::steady_clock::now() + kWaitMax;
  std::unique_lock lock(mutex_);
  if (has_room(bytes) && (small || waiting_.empty())) {
    in_use_ += bytes;
    return Share(*this, bytes);
  }
  const auto place = waiting_.insert(waiting_.end(), bytes);
  const auto my_turn = [&] { return has_room(bytes) && (small || place == waiting_.begin()); };
  std::optional<ApiError> error;
  while (!changed_.wait_for(lock, kWaitSlice, my_turn) && !error) {
    lock.unlock();  // it may ask the kernel
    error = interruption();
    lock.lock();
    if (!error && std::chrono::steady_clock::now() >= gives_up_at) {
      error.emplace();
      error->kind = ErrorKind::kOverloaded;
      error->message = "the server has no memory left for " + use_ +
                       " more requests as large as this one; try again soon";
    }
  }
  waiting_.erase(place);
  changed_.notify_all();  // the next one's turn may have come
  if (error) return tl::unexpected(std::move(*error));
  in_use_ += bytes;
  return Share(*this, bytes);
}

void MemoryPool::give_back(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
  }
  changed_.notify_all();
}

size_t MemoryPool::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace espalier::server
