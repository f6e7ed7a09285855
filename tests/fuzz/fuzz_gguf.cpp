// GGUF files: whatever the bytes say, parse_header() either throws std::runtime_error or returns
// tensors that lie within the file, have the size that their shape needs, and share no byte; and
// every value of metadata and tensors can be read or is refused.
//
// Input: a GGUF file.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "engine/gguf_file.h"

namespace {

using espalier::engine::GgufFile;
using espalier::engine::GgufMetadata;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const GgufFile::Header& header, std::span<const std::byte> file) {
  const size_t file_bytes = file.size();
  std::vector<bool> taken(file_bytes);
  for (const auto& [name, entry] : header.entries) {
    require(entry.begin <= entry.end && entry.end <= file_bytes);
    const auto bytes = espalier::engine::tensor_bytes(entry.dtype, entry.shape);
    require(bytes && *bytes == entry.end - entry.begin);
    for (size_t byte = entry.begin; byte < entry.end; ++byte) {
      require(!taken[byte]);
      taken[byte] = true;
    }
    require(header.other_types.count(name) == 0);
    const espalier::engine::TensorView tensor{entry.dtype, entry.shape,
                                              file.subspan(entry.begin, entry.end - entry.begin)};
    std::vector<float> values(tensor.elements());
    espalier::engine::convert_to_f32(tensor, 0, values.size(), values.data());
  }
}

template <typename Read>
void read_or_refuse(const Read& read) {
  try {
    (void)read();
  } catch (const std::runtime_error&) {
    // Refused: the other allowed outcome.
  }
}

void read_as_everything(const GgufMetadata& metadata, std::string_view key) {
  read_or_refuse([&] { return metadata.unsigned_integer(key); });
  read_or_refuse([&] { return metadata.number(key); });
  read_or_refuse([&] { return metadata.boolean(key); });
  read_or_refuse([&] { return metadata.text(key); });
  read_or_refuse([&] { return metadata.texts(key); });
  read_or_refuse([&] { return metadata.integers(key); });
  read_or_refuse([&] { return metadata.floats(key); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::span file(reinterpret_cast<const std::byte*>(data), size);
    const GgufFile::Header header = GgufFile::parse_header(file, "fuzz");
    check(header, file);
    for (const char* key : {"general.architecture", "a", "b", ""}) {
      read_as_everything(header.metadata, key);
    }
  } catch (const std::runtime_error&) {
    // Refused: the other allowed outcome.
  }
  return 0;
}
