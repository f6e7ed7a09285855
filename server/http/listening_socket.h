// The socket that a server accepts from.
#pragma once

#include <cstdint>
#include <string>

#include "server/http/file_descriptor.h"

namespace espalier::server {

struct ListeningSocket {
  FileDescriptor fd;  // non-blocking
  uint16_t port = 0;
};

/// Listens on the first address of `host` that can be bound; port 0 takes any free one. Throws
/// std::runtime_error with the reason and the mend. A port that another server listens on is an
/// error: SO_REUSEADDR is set, for quick restarts, SO_REUSEPORT is not.
ListeningSocket listen_on(const std::string& host, uint16_t port,
                          const std::string& option_prefix = "--");

}  // namespace espalier::server
