#include "server/http/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace espalier::server {
namespace {

/// Connections that the kernel completes while we are busy; SOMAXCONN may cap it.
constexpr int kBacklog = 512;

struct AddressListDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

AddressList resolve(const std::string& host, uint16_t port, const std::string& prefix) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                    std::to_string(port).c_str(), &hints, &list);
  if (failure != 0) {
    throw std::runtime_error("cannot listen on host \"" + host + "\": " + ::gai_strerror(failure) +
                             "; " + prefix +
                             "host takes an address of this machine such as 127.0.0.1, or "
                             "0.0.0.0 for all");
  }
  return AddressList(list);
}

std::string failure_message(const std::string& host, uint16_t port, const std::string& prefix,
                            int error) {
  std::string message =
      "cannot listen on " + host + ":" + std::to_string(port) + ": " + std::strerror(error);
  if (error == EADDRINUSE) {
    message +=
        "; stop the server that uses this port, or choose another one with " + prefix + "port";
  } else if (error == EACCES) {
    message += "; ports below 1024 need a privilege, choose another one with " + prefix + "port";
  } else if (error == EADDRNOTAVAIL) {
    message += "; " + prefix + "host takes an address of this machine, or 0.0.0.0 for all";
  }
  return message;
}

uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error(std::string("getsockname: ") + std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

/// Not open on failure, with errno set.
FileDescriptor try_listen(const addrinfo& address) {
  FileDescriptor fd(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                             address.ai_protocol));
  if (!fd.is_open()) return fd;
  const int yes = 1;
  const int no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.ai_family == AF_INET6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

}  // namespace

ListeningSocket listen_on(const std::string& host, uint16_t port,
                          const std::string& option_prefix) {
  const AddressList addresses = resolve(host, port, option_prefix);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor fd = try_listen(*address);
    if (fd.is_open()) {
      const uint16_t actual = bound_port(fd.get());
      return {std::move(fd), actual};
    }
    error = errno;
    // The next address would listen beside a server that clients may reach by the same name.
    if (error == EADDRINUSE) break;
  }
  throw std::runtime_error(failure_message(host, port, option_prefix, error));
}

}  // namespace espalier::server
