// What came of one transfer that does not wait.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::server {

/// kWantRead, kWantWrite: nothing moved, the socket must be readable (writable) first. kClosed: the
/// peer has closed the connection, or it broke.
enum class IoStatus : uint8_t { kOk, kWantRead, kWantWrite, kClosed };

struct IoResult {
  IoStatus status = IoStatus::kOk;
  size_t bytes = 0;  // more than none with kOk
};

}  // namespace espalier::server
