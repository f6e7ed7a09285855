#include "server/http/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace espalier::server {
namespace {

/// What all IPv4 addresses start with.
constexpr std::array<uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// The first `bits` of `bytes`, the others zero.
IpAddress::Bytes leading_bits(const IpAddress::Bytes& bytes, size_t bits) {
  IpAddress::Bytes kept{};
  std::copy_n(bytes.begin(), bits / 8, kept.begin());
  if (bits % 8 != 0)
    kept.at(bits / 8) = static_cast<uint8_t>(bytes.at(bits / 8) & (0xff00U >> (bits % 8)));
  return kept;
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton() wants it to end with a zero; a longer one is no address.
  std::array<char, INET6_ADDRSTRLEN> with_end{};
  if (text.size() >= with_end.size() || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  text.copy(with_end.data(), text.size());
  Bytes bytes{};
  if (::inet_pton(AF_INET6, with_end.data(), bytes.data()) == 1) return IpAddress(bytes);
  std::ranges::copy(kIpv4Prefix, bytes.begin());
  if (::inet_pton(AF_INET, with_end.data(), &bytes[kIpv4Prefix.size()]) == 1)
    return IpAddress(bytes);
  return std::nullopt;
}

bool IpAddress::is_ipv4() const {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes_.begin());
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  // It cannot fail: family and room are right.
  const char* const written =
      is_ipv4() ? ::inet_ntop(AF_INET, &bytes_[kIpv4Prefix.size()], text.data(), text.size())
                : ::inet_ntop(AF_INET6, bytes_.data(), text.data(), text.size());
  return written != nullptr ? written : std::string();
}

IpNetwork::IpNetwork(const IpAddress& address, size_t prefix_bits)
    : first_(address), bits_(128 - address.family_bits() + prefix_bits) {
  first_ = IpAddress(leading_bits(address.bytes(), bits_));
}

bool IpNetwork::contains(const IpAddress& address) const {
  return address.is_ipv4() == first_.is_ipv4() &&
         leading_bits(address.bytes(), bits_) == first_.bytes();
}

}  // namespace espalier::server
