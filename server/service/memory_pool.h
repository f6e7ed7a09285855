// A bound on the memory that requests take at once, in sum over all of them. Each says how much it
// will take at most, before it does, and waits for its turn where there is not enough.
//
// Large requests get theirs in the order in which they came. The last eighth is for small ones, so
// that those are not kept waiting by the large. Whoever holds a share of one pool may wait for one
// of another only if nobody does so the other way round.
//
// Thread contract: any thread; a Share has one owner at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/api_error.h"

namespace espalier::server {

class MemoryPool {
 public:
  /// Asked now and then by whoever waits; an error ends the waiting.
  using Interruption = std::function<std::optional<ApiError>()>;

  /// Of `bytes`, for what `use` says: "reading requests".
  MemoryPool(size_t bytes, std::string use) : bytes_(bytes), use_(std::move(use)) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// One request's part, given back when it goes away.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { shrink_to(0); }

    /// Gives back all but `bytes`, if it has more.
    void shrink_to(size_t bytes);
    size_t bytes() const { return bytes_; }

   private:
    friend class MemoryPool;
    Share(MemoryPool& pool, size_t bytes) : pool_(&pool), bytes_(bytes) {}

    MemoryPool* pool_ = nullptr;
    size_t bytes_ = 0;
  };

  /// Waits until there are `bytes`. Errors: kPayloadTooLarge at once if there never will be,
  /// kOverloaded if there are not within kWaitMax, and what `interruption` gives.
  Result<Share> take(size_t bytes, const Interruption& interruption);

  size_t bytes() const { return bytes_; }
  size_t bytes_in_use() const;

  /// A thread of the server waits as long; who comes again later loses nothing.
  static constexpr std::chrono::seconds kWaitMax{10};

 private:
  bool is_small(size_t bytes) const;
  bool has_room(size_t bytes) const;
  ApiError never_fits(size_t bytes) const;
  void give_back(size_t bytes);

  const size_t bytes_;
  const std::string use_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something was given back, or a turn has come
  // Guarded by mutex_.
  size_t in_use_ = 0;
  std::list<size_t> waiting_;  // what large requests wait for, first come first
};

}  // namespace espalier::server
