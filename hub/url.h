// URLs of a hub and of those it redirects to.
//
// Thread contract: none needed.
#pragma once

#include <string>
#include <string_view>

namespace espalier::hub {

struct Url {
  bool https = true;
  std::string host;  // lower case; an IPv6 address without its brackets
  int port = 443;
  std::string target;  // path and query, byte for byte as given; of a request never empty

  /// "https://host[:port]"; the port if it is not the scheme's own.
  std::string origin() const;
  std::string text() const { return origin() + target; }
  /// Same scheme, host and port: who may see the token.
  bool same_origin(const Url& other) const;
};

/// An absolute URL, without its fragment. Throws HubError for other schemes than http and https,
/// for a user name in it, and for characters that no request line can hold.
Url parse_url(std::string_view text);

/// Where a redirect from `base` leads: `location` may be absolute, or relative in any form of
/// RFC 3986. Signed targets stay as they are, byte for byte. Throws HubError as parse_url(), and if
/// https would become http.
Url resolve_redirect(const Url& base, std::string_view location);

/// `path` with all but letters, digits and "-._~" (and "/", if it is to stay) as %XX.
std::string percent_encoded(std::string_view path, bool keep_slashes);

}  // namespace espalier::hub
