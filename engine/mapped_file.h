// A whole file, mapped to read.
//
// Thread contract: immutable after open(); any number of readers. A file that is cut short while it
// is mapped ends the process when what is gone is read, as with every map.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace espalier::engine {

class MappedFile {
 public:
  /// Maps a regular file of at least `least_bytes`, so many as the `format` ("safetensors") needs.
  /// Throws std::runtime_error with the file and the reason.
  MappedFile(const std::filesystem::path& path, size_t least_bytes, const char* format);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// Tells the kernel that the pages of `mapped`, a part of a mapped file, are not needed for now:
/// they come back from the file when read.
void release_pages(std::span<const std::byte> mapped);

}  // namespace espalier::engine
