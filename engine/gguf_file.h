// A memory-mapped GGUF file, version 2 or 3: metadata and tensors, as llama.cpp stores models.
// Layout: "GGUF", version (u32), number of tensors and of key-value pairs (u64 each); the pairs;
// name, dimensions, type and offset of each tensor; then, aligned, their data. Little-endian.
//
// The file is hostile until checked: open() bounds every count, length, dimension and offset by the
// file's size, and throws std::runtime_error with the file, the key or tensor, and the reason.
//
// Thread contract: immutable after open(); any number of readers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf_metadata.h"
#include "engine/tensor_view.h"

namespace espalier::engine {

class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);

  struct Entry {
    DataType dtype;
    std::vector<size_t> shape;  // row-major: the file's dimensions in reverse
    size_t begin, end;          // bytes in the file
  };
  struct Header {
    GgufMetadata metadata;
    std::map<std::string, Entry> entries;
    std::map<std::string, std::string> other_types;  // name -> type that DataType lacks
  };
  /// Checks the bytes of a whole file, to which the result refers: for open() and the fuzzer.
  static Header parse_header(std::span<const std::byte> file, const std::string& file_name);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const GgufMetadata& metadata() const;
  const std::map<std::string, TensorView>& tensors() const;
  /// Tensors of types that cannot be read, and their types ("IQ4_XS").
  const std::map<std::string, std::string>& other_types() const;
  const std::filesystem::path& path() const;

  /// As SafetensorsFile::release_pages().
  void release_pages(const TensorView& tensor) const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace espalier::engine
