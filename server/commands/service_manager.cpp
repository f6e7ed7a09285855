#include "server/commands/service_manager.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "server/http/file_descriptor.h"

namespace espalier::commands {
namespace {

/// A manager that does not read must not hold up a shutdown.
constexpr timeval kSendTimeout{5, 0};

std::string socket_name() {
  const char* name = std::getenv("NOTIFY_SOCKET");
  return name == nullptr ? "" : name;
}

/// 0, or an errno.
int send_datagram(std::string name, const std::string& text) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  if (name[0] != '@' && name[0] != '/') return EAFNOSUPPORT;
  if (name[0] == '@') name[0] = '\0';  // an abstract name, which no file stands for
  std::memcpy(address.sun_path, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const server::FileDescriptor descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (descriptor.get() < 0) return errno;
  ::setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  const auto sent = ::sendto(descriptor.get(), text.data(), text.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), length);
  return sent < 0 ? errno : 0;
}

}  // namespace

bool has_service_manager() { return !socket_name().empty(); }

void tell_service_manager(const std::string& lines) {
  const std::string name = socket_name();
  if (name.empty()) return;
  if (const int error = send_datagram(name, lines); error != 0) {
    spdlog::warn("the service manager at NOTIFY_SOCKET={} was not told: {}", name,
                 std::strerror(error));
  }
}

}  // namespace espalier::commands
