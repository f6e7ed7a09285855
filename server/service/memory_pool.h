// A bound on the memory that requests take at once, in sum over all of them. Each says how much it
// will take at most, before it does, and waits for its turn where there is not enough.
//
// The last eighth is for small requests, so that those are not kept waiting by the large, and the
// quarter before it for clients that have nothing yet: nobody alone can keep the others out. Who
// has nothing comes first, then clients in turn; each one's requests in the order in which they
// came. Whoever holds a share of one pool may wait for one of another only if nobody does so the
// other way round.
//
// Thread contract: any thread; a Share has one owner at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
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
        : pool_(std::exchange(other.pool_, nullptr)),
          client_(other.client_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(client_, other.client_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { shrink_to(0); }

    /// Gives back all but `bytes`, if it has more.
    void shrink_to(size_t bytes);
    size_t bytes() const { return bytes_; }

   private:
    friend class MemoryPool;
    Share(MemoryPool& pool, uint64_t client, size_t bytes)
        : pool_(&pool), client_(client), bytes_(bytes) {}

    MemoryPool* pool_ = nullptr;
    uint64_t client_ = 0;
    size_t bytes_ = 0;
  };

  /// Waits until there are `bytes` for `client` (Identity::client). Errors: kPayloadTooLarge at
  /// once if there never will be, kOverloaded if there are not within kWaitMax, and what
  /// `interruption` gives.
  Result<Share> take(uint64_t client, size_t bytes, const Interruption& interruption);

  size_t bytes() const { return bytes_; }
  size_t bytes_in_use() const;

  /// A thread of the server waits as long; who comes again later loses nothing.
  static constexpr std::chrono::seconds kWaitMax{10};

 private:
  /// One that has something, or waits.
  struct Client {
    size_t bytes = 0;
    size_t waiting = 0;
    uint64_t turn = 0;  // when it was given something last
  };
  using Clients = std::map<uint64_t, Client>;
  struct Waiting {
    const Client* client;
    size_t bytes;
  };
  using Place = std::list<Waiting>::iterator;

  bool is_small(size_t bytes) const;
  bool has_room(const Client& client, size_t bytes) const;
  bool is_next(Place place) const;
  void give(Client& client, size_t bytes);
  void leave(Place place, Clients::iterator client);
  void forget_if_idle(Clients::iterator client);
  ApiError never_fits(size_t bytes) const;
  ApiError none_left() const;
  void give_back(uint64_t client, size_t bytes);

  const size_t bytes_;
  const std::string use_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something was given back, or a turn has come
  // Guarded by mutex_.
  size_t in_use_ = 0;
  uint64_t turns_ = 2;
  Clients clients_;
  std::list<Waiting> waiting_;  // as they came
};

}  // namespace espalier::server
