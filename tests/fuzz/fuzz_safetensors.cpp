// Safetensors headers: whatever the bytes say, parse_header() either throws std::runtime_error or
// returns tensors that lie within the data, have the size that their shape needs, and share no
// byte.
//
// Input: two bytes, the number of data bytes behind the header; then the header.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "engine/safetensors.h"

namespace {

using espalier::engine::SafetensorsFile;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const SafetensorsFile::Header& header, size_t data_bytes) {
  std::vector<bool> taken(data_bytes);
  for (const auto& [name, entry] : header.entries) {
    require(entry.begin <= entry.end && entry.end <= data_bytes);
    size_t elements = 1;
    for (const size_t dimension : entry.shape) {
      if (dimension == 0) elements = 0;
    }
    for (const size_t dimension : entry.shape) {
      if (elements != 0) require(!__builtin_mul_overflow(elements, dimension, &elements));
    }
    require(elements * espalier::engine::bytes_of(entry.dtype) == entry.end - entry.begin);
    for (size_t byte = entry.begin; byte < entry.end; ++byte) {
      require(!taken[byte]);
      taken[byte] = true;
    }
    require(header.other_dtypes.count(name) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t data_bytes = data[0] + 256u * data[1];
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    check(SafetensorsFile::parse_header(json, data_bytes, "fuzz"), data_bytes);
  } catch (const std::runtime_error&) {
    // Refused: the other allowed outcome.
  }
  return 0;
}
