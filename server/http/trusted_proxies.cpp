#include "server/http/trusted_proxies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "server/http/field_text.h"

namespace espalier::server {
namespace {

constexpr char kForwardedFor[] = "x-forwarded-for";
constexpr char kPrivate[] = "private";
constexpr std::array<const char*, 8> kPrivateNetworks{"10.0.0.0/8",     "172.16.0.0/12",
                                                      "192.168.0.0/16",               // RFC 1918
                                                      "127.0.0.0/8",    "::1/128",    // loopback
                                                      "169.254.0.0/16", "fe80::/10",  // link-local
                                                      "fc00::/7"};  // unique local (RFC 4193)

[[noreturn]] void refuse(const std::string& network, const std::string& why) {
  throw std::runtime_error("--trusted-proxy: `" + network + "` " + why);
}

IpNetwork parse_network(const std::string& text) {
  const size_t slash = text.find('/');
  const auto address = IpAddress::parse(std::string_view(text).substr(0, slash));
  if (!address) {
    refuse(text,
           "is neither an IP address nor a network; write 192.0.2.7, 10.0.0.0/8, fd00::/8, or "
           "`private` for loopback, link-local and private networks");
  }
  if (slash == std::string::npos) return {*address, address->family_bits()};
  size_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || parsed != end || bits > address->family_bits()) {
    refuse(text, "is no network: behind the slash of " + address->text() +
                     " stands a number of bits from 0 to " +
                     std::to_string(address->family_bits()));
  }
  const IpNetwork network(*address, bits);
  if (network.first() != *address) {
    refuse(text, "has bits beyond its prefix; write " + network.first().text() + "/" +
                     std::to_string(bits) + " for the network, or " + address->text() +
                     " for the one address");
  }
  return network;
}

/// Whether `text` is empty, or a colon and a port.
bool is_port_or_nothing(std::string_view text) {
  if (text.empty()) return true;
  const auto digits = text.substr(1);
  return text.front() == ':' && !digits.empty() && digits.size() <= 5 &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

/// "192.0.2.7", "192.0.2.7:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80".
std::optional<IpAddress> parse_forwarded(std::string_view entry) {
  if (entry.starts_with('[')) {
    const size_t end = entry.find(']');
    if (end == std::string_view::npos || !is_port_or_nothing(entry.substr(end + 1)))
      return std::nullopt;
    return IpAddress::parse(entry.substr(1, end - 1));
  }
  const size_t colon = entry.find(':');
  // With two of them it is IPv6, which has a port behind brackets alone.
  if (colon == std::string_view::npos || entry.find(':', colon + 1) != std::string_view::npos)
    return IpAddress::parse(entry);
  if (!is_port_or_nothing(entry.substr(colon))) return std::nullopt;
  return IpAddress::parse(entry.substr(0, colon));
}

/// Takes the entry behind the last comma off `list`, or all of it.
std::string_view take_last(std::string_view& list) {
  const size_t comma = list.rfind(',');
  if (comma == std::string_view::npos) return std::exchange(list, {});
  const auto last = list.substr(comma + 1);
  list = list.substr(0, comma);
  return last;
}

}  // namespace

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& network : networks) {
    if (network != kPrivate) {
      networks_.push_back(parse_network(network));
      continue;
    }
    for (const char* const one : kPrivateNetworks) networks_.push_back(parse_network(one));
  }
}

bool TrustedProxies::contains(const IpAddress& address) const {
  return std::ranges::any_of(networks_, [&](const auto& one) { return one.contains(address); });
}

std::string TrustedProxies::client_of(std::string_view peer, const HeaderFields& fields) const {
  auto client = networks_.empty() ? std::nullopt : IpAddress::parse(peer);
  if (!client || !contains(*client)) return std::string(peer);
  // Several fields of the name are one list, in their order.
  for (std::string_view list : fields.find_all(kForwardedFor) | std::views::reverse) {
    while (!list.empty()) {
      const auto entry = trim(take_last(list));
      if (entry.empty()) continue;  // RFC 9110, section 5.6.1: such ones mean nothing
      const auto address = parse_forwarded(entry);
      if (!address) return client->text();
      client = address;
      if (!contains(*client)) return client->text();
    }
  }
  return client->text();
}

}  // namespace espalier::server
