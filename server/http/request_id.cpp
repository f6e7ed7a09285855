#include "server/http/request_id.h"

#include <algorithm>
#include <atomic>
#include <random>

namespace espalier::server {
namespace {

constexpr size_t kIdBytesMax = 128;

/// The finalizer of SplitMix64 (Steele et al. 2014): a bijection, so counted ids do not collide.
uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 30U) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ bits >> 27U) * 0x94D049BB133111EBU;
  return bits ^ bits >> 31U;
}

uint64_t random_bits() {
  std::random_device device;
  return uint64_t{device()} << 32U | device();
}

void append_hex(uint64_t bits, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[bits >> shift & 15U];
}

}  // namespace

bool is_sound_request_id(std::string_view id) {
  const auto sound = [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  return !id.empty() && id.size() <= kIdBytesMax && std::ranges::all_of(id, sound);
}

std::string new_request_id() {
  static const uint64_t process = random_bits();
  static const uint64_t first = random_bits();
  static std::atomic<uint64_t> count = 0;
  std::string id;
  append_hex(process, id);
  append_hex(mix(first + 0x9E3779B97F4A7C15U * count.fetch_add(1, std::memory_order_relaxed)), id);
  return id;
}

}  // namespace espalier::server
