#include "server/api/base64.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::server {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::vector<uint8_t> little_endian_bytes(std::span<const float> values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(4 * values.size());
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return bytes;
}

}  // namespace

void append_base64(std::span<const float> values, std::string& out) {
  const auto bytes = little_endian_bytes(values);
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t present = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8U | (k < present ? bytes[i + k] : 0U);
    for (size_t k = 0; k < 4; ++k)
      out += k <= present ? kAlphabet[group >> (18 - 6 * k) & 63U] : '=';
  }
}

}  // namespace espalier::server
