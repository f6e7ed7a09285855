// A memory-mapped safetensors file. Layout: u64 little-endian header length, JSON header
// {name: {dtype, shape, data_offsets: [begin, end)}}, then the data.
//
// The file is hostile until checked: open() verifies every bound (header length, offsets, shape ×
// dtype size, overlap, duplicates) and throws std::runtime_error with the file, the tensor and the
// reason.
//
// Thread contract: immutable after open(); any number of readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor_view.h"

namespace espalier::engine {

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  /// Checks a header against the number of data bytes behind it, without a file: for open() and the
  /// fuzzer. Tensors of dtypes other than DataType's are listed in `other_dtypes`, not refused.
  struct Entry {
    DataType dtype;
    std::vector<size_t> shape;
    size_t begin, end;  // in the data
  };
  struct Header {
    std::map<std::string, Entry> entries;
    std::map<std::string, std::string> other_dtypes;  // name -> dtype
  };
  static Header parse_header(std::string_view json, size_t data_bytes,
                             const std::string& file_name);

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::map<std::string, TensorView>& tensors() const;
  const std::map<std::string, std::string>& other_dtypes() const;
  const std::filesystem::path& path() const;

  /// Tells the kernel that a tensor's pages are not needed for now (they come back from the file
  /// when read): resident memory stays bounded while weights are packed one by one.
  void release_pages(const TensorView& tensor) const;

 private:
  struct Impl;
  explicit SafetensorsFile(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace espalier::engine
