#include "hub/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr size_t kUrlBytesMax = 8192;  // signed URLs have 1 to 2 kB
constexpr int kHttpPort = 80;
constexpr int kHttpsPort = 443;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  // The query may be a signature, which is nobody's business.
  throw HubError("'" + std::string(text.substr(0, std::min<size_t>(text.find('?'), 200))) +
                 "' is not a URL that can be asked: " + why);
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 255 && std::ranges::all_of(host, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
  });
}

bool is_ipv6(std::string_view host) {
  return !host.empty() && host.size() <= 45 && std::ranges::all_of(host, [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
  });
}

/// "." and ".." taken out of an absolute path (RFC 3986, section 5.2.4).
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool ends_with_folder = false;
  for (path.remove_prefix(1);;) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    ends_with_folder = part == "." || part == "..";
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  std::string out;
  for (const auto part : parts) out.append("/").append(part);
  if (ends_with_folder || out.empty()) out += '/';
  return out;
}

}  // namespace

std::string Url::origin() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  std::string out = (https ? "https://" : "http://") + (ipv6 ? "[" + host + "]" : host);
  if (port != (https ? kHttpsPort : kHttpPort)) out += ":" + std::to_string(port);
  return out;
}

bool Url::same_origin(const Url& other) const {
  return https == other.https && host == other.host && port == other.port;
}

Url parse_url(std::string_view text) {
  text = text.substr(0, text.find('#'));
  if (text.size() > kUrlBytesMax) refuse(text, "it is too long");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
      refuse(text, "it holds a space or a control character");
  }
  const size_t scheme_end = text.find("://");
  std::string scheme(text.substr(0, std::min(scheme_end, text.size())));
  std::ranges::transform(scheme, scheme.begin(), [](unsigned char c) { return std::tolower(c); });
  if (scheme_end == std::string_view::npos || (scheme != "http" && scheme != "https"))
    refuse(text, "it does not begin with https:// or http://");

  Url url;
  url.https = scheme == "https";
  url.port = url.https ? kHttpsPort : kHttpPort;
  std::string_view rest = text.substr(scheme_end + 3);
  const size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, authority_end);
  url.target = rest.substr(authority_end);
  if (url.target.starts_with('?')) url.target.insert(0, "/");

  if (authority.find('@') != std::string_view::npos) refuse(text, "it holds a user name");
  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos || !is_ipv6(authority.substr(1, end - 1)))
      refuse(text, "its address is none");
    url.host = authority.substr(1, end - 1);
    const std::string_view behind = authority.substr(end + 1);
    has_port = behind.starts_with(':');
    if (!behind.empty() && !has_port) refuse(text, "its address is none");
    if (has_port) port = behind.substr(1);
  } else {
    const size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
    if (!is_host(url.host)) refuse(text, "it names no host");
  }
  std::ranges::transform(url.host, url.host.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  if (has_port) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port < 1 ||
        url.port > 65535)
      refuse(text, "its port is none");
  }
  return url;
}

Url resolve_redirect(const Url& base, std::string_view location) {
  location = location.substr(0, location.find('#'));
  const size_t colon = location.find(':');
  const size_t slash = location.find_first_of("/?");
  Url url;
  if (colon != std::string_view::npos && colon < slash) {
    url = parse_url(location);
  } else if (location.starts_with("//")) {
    url = parse_url((base.https ? "https:" : "http:") + std::string(location));
  } else {
    const std::string base_path = base.target.substr(0, base.target.find('?'));
    std::string target;
    if (location.starts_with('/')) {
      target = location;
    } else if (location.empty()) {
      target = base.target;
    } else if (location.starts_with('?')) {
      target = base_path + std::string(location);
    } else {
      const size_t question = std::min(location.find('?'), location.size());
      const std::string folder = base_path.substr(0, base_path.rfind('/') + 1);
      target = without_dots((folder.empty() ? "/" : folder) +
                            std::string(location.substr(0, question))) +
               std::string(location.substr(question));
    }
    url = parse_url(base.origin() + target);
  }
  if (url.target.empty()) url.target = "/";
  if (base.https && !url.https)
    throw HubError(base.origin() + " redirects to " + url.origin() +
                   ", which is not encrypted; that is not followed");
  return url;
}

std::string percent_encoded(std::string_view path, bool keep_slashes) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain || (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

}  // namespace espalier::hub
