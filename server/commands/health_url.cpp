#include "server/commands/health_url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <stdexcept>
#include <string>

#include "hub/hub_error.h"
#include "server/api/route_paths.h"

namespace espalier::commands {
namespace {

/// Nobody can be reached at the address that stands for all of a machine.
std::string reachable(const std::string& host) {
  in_addr v4{};
  if (host.empty() || (inet_pton(AF_INET, host.c_str(), &v4) == 1 && v4.s_addr == INADDR_ANY))
    return "127.0.0.1";
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6)) return "::1";
  return host;
}

hub::Url given_url(const std::string& text, const std::string& probe) {
  hub::Url url;
  try {
    url = hub::parse_url(text);
  } catch (const hub::HubError& error) {
    throw std::runtime_error(std::string("--url: ") + error.what());
  }
  if (url.target.empty() || url.target == "/") url.target = probe;
  return url;
}

}  // namespace

hub::Url health_url(const Options& options) {
  const std::string probe = options.health_live ? server::kLivePath : server::kReadyPath;
  if (!options.health_url.empty()) return given_url(options.health_url, probe);

  const bool has_admin = options.admin_port != 0;
  if (!has_admin && options.port == 0) {
    throw std::runtime_error(
        "with --port 0 (ESPALIER_PORT) the server takes any free port: say which by --url "
        "http://127.0.0.1:PORT, or give the server one");
  }
  const bool own_host = !has_admin || options.admin_host.empty();
  hub::Url url;
  url.https = !has_admin && !options.tls_cert.empty();
  url.host = reachable(own_host ? options.host : options.admin_host);
  url.port = has_admin ? options.admin_port : options.port;
  url.target = probe;
  return url;
}

}  // namespace espalier::commands
