#include "server/observe/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace espalier::server {

bool LineWriter::write(std::string_view line) {
  const auto deadline = Clock::now() + (stuck_ ? std::chrono::milliseconds(0) : patience_);
  if (torn_) {
    if (!write_all("\n", deadline)) return false;
    torn_ = false;
  }
  stuck_ = !write_all(line, deadline);
  return !stuck_;
}

bool LineWriter::write_all(std::string_view bytes, Clock::time_point deadline) {
  bool begun = false;
  while (!bytes.empty()) {
    if (!wait_until_writable(deadline)) {
      torn_ = torn_ || begun;
      return false;
    }
    // A pipe that is writable takes PIPE_BUF bytes without blocking. The descriptor is left as it
    // is: O_NONBLOCK would hold for every process that shares it.
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    // EAGAIN: somebody has made the descriptor non-blocking.
    if (written < 0 && (errno == EINTR || (errno == EAGAIN && Clock::now() < deadline))) continue;
    if (written <= 0) {
      torn_ = torn_ || begun;
      return false;
    }
    begun = true;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool LineWriter::wait_until_writable(Clock::time_point deadline) const {
  pollfd writable{descriptor_, POLLOUT, 0};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = ::poll(&writable, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return (writable.revents & POLLOUT) != 0;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace espalier::server
