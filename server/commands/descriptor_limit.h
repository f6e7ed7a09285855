// How many files and sockets this process may have open.
#pragma once

#include <cstddef>

namespace espalier::commands {

/// Raises the limit as far as the system lets this process, and logs it. Returns the limit.
size_t raise_descriptor_limit();

/// Client connections that fit under `descriptors`, beside what the server itself opens.
size_t connections_within(size_t descriptors);

}  // namespace espalier::commands
