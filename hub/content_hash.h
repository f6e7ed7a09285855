// The hashes by which hubs name contents: SHA-256 of files in Git LFS, and the SHA-1 that Git gives
// to a blob, of the others.
//
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace espalier::hub {

class ContentHash {
 public:
  /// The hash that `etag` is, of a content of `size` bytes: 64 hexadecimal digits are SHA-256, 40
  /// are Git's. Any other ETag says nothing of the content.
  ContentHash(std::string_view etag, uint64_t size);
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;
  ContentHash& operator=(ContentHash&&) noexcept;

  void add(std::string_view bytes);

  /// Whether what was added is what the ETag names; true for an ETag that says nothing. Once.
  bool matches();

 private:
  struct State;
  std::unique_ptr<State> state_;  // null: nothing to compare with
  std::string expected_;
};

}  // namespace espalier::hub
