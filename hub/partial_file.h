// A file on its way into the cache: written beside its place, and moved there when it is complete,
// on the disk and checked. What is there of it survives, for the next attempt.
//
// Thread contract: one thread, and no other process (FileLock).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace espalier::hub {

class PartialFile {
 public:
  /// Opens or makes it. Every member throws HubError that says what to do about a full disk.
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  uint64_t size() const { return size_; }
  void append(std::string_view bytes);
  /// Its bytes from the beginning, in pieces.
  void read(const std::function<void(std::string_view)>& piece) const;
  void clear();
  /// To the disk, and to `place`, which it replaces.
  void move_to(const std::filesystem::path& place);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// Throws HubError if the file system of `folder` has no room for `bytes` more.
void require_disk_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace espalier::hub
