// An IP address, and a network of them: IPv4 and IPv6 in one form.
//
// Thread contract: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::server {

/// 16 bytes, as IPv6 has them; IPv4 is ::ffff:a.b.c.d, so that both ways to write such an address
/// are the same one.
class IpAddress {
 public:
  using Bytes = std::array<uint8_t, 16>;

  explicit IpAddress(const Bytes& bytes) : bytes_(bytes) {}
  /// "192.0.2.7" or "2001:db8::1": no port, no brackets, no zone. nullopt for all else.
  static std::optional<IpAddress> parse(std::string_view text);

  const Bytes& bytes() const { return bytes_; }
  bool is_ipv4() const;
  /// IPv4 in dots, IPv6 as RFC 5952 writes it.
  std::string text() const;
  /// Bits of an address of its family: 32 or 128.
  size_t family_bits() const { return is_ipv4() ? 32 : 128; }

  bool operator==(const IpAddress&) const = default;

 private:
  Bytes bytes_;
};

/// The addresses that start with the same bits. One of IPv4 holds no IPv6 address, and the other
/// way round: "::/0" is all of IPv6 alone.
class IpNetwork {
 public:
  /// The first `prefix_bits` of `address`, at most its family_bits(); the bits beyond are cleared.
  IpNetwork(const IpAddress& address, size_t prefix_bits);

  bool contains(const IpAddress& address) const;
  const IpAddress& first() const { return first_; }

 private:
  IpAddress first_;
  size_t bits_;  // of the 16 bytes
};

}  // namespace espalier::server
