// How many bytes of bodies, of requests or of answers, may be in memory at once, over all requests.
// The last eighth is for small bodies: a few large ones that arrive slowly must not keep everybody
// out.
//
// Thread contract: any thread; a Share has one owner at a time.
#pragma once

#include <atomic>
#include <cstddef>

namespace espalier::server {

class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  /// From now on; what is in use already stays.
  void set_bytes_max(size_t bytes_max) { bytes_max_ = bytes_max; }

  bool is_in_use() const { return bytes_.load() > 0; }

  /// One request's part, given back when it goes away.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { budget_.bytes_.fetch_sub(bytes_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// False, and nothing taken, when there is no room for `bytes` more.
    bool grow(size_t bytes) {
      const size_t bytes_max = budget_.bytes_max_;
      const bool small = bytes_ + bytes <= bytes_max / kSmallPart;
      const size_t kept = small ? 0 : bytes_max / kKeptPart;
      if (budget_.bytes_.fetch_add(bytes) + bytes > bytes_max - kept) {
        budget_.bytes_.fetch_sub(bytes);
        return false;
      }
      bytes_ += bytes;
      return true;
    }

   private:
    BodyBudget& budget_;
    size_t bytes_ = 0;
  };

 private:
  static constexpr size_t kKeptPart = 8;
  static constexpr size_t kSmallPart = 256;

  std::atomic<size_t> bytes_max_;
  std::atomic<size_t> bytes_ = 0;
};

}  // namespace espalier::server
