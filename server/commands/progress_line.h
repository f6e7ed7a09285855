// Progress of long work on stderr: one line that rewrites itself on a terminal, a log line now and
// then elsewhere. Quiet for work that is done at once.
//
// Thread contract: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace espalier::commands {

class ProgressLine {
 public:
  ProgressLine();
  /// Erases the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text()` if it is time to: 10 times a second on a terminal, else every 5 seconds.
  void update(const std::function<std::string()>& text);

  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

/// "1.24 GB", "10.5 MB".
std::string byte_text(size_t bytes);

}  // namespace espalier::commands
