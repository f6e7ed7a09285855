// How far a model's files have come, on stderr: on a terminal a line with a bar for each file, else
// a log line now and then.
//
// Thread contract: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "hub/fetch_events.h"

namespace espalier::commands {

class DownloadProgress {
 public:
  DownloadProgress();
  /// Erases a line that is not complete.
  ~DownloadProgress();
  DownloadProgress(const DownloadProgress&) = delete;
  DownloadProgress& operator=(const DownloadProgress&) = delete;

  void update(const hub::FileProgress& progress);
  void warn(const std::string& message);

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const hub::FileProgress& progress);
  void measure_rate(uint64_t done, Clock::time_point now);
  void draw(const std::string& line, bool stays);
  void erase();

  bool terminal_;
  bool drawn_ = false;
  std::string file_;  // whose progress `begun_` and the rate belong to
  Clock::time_point begun_, told_, measured_;
  uint64_t measured_done_ = 0;
  double rate_ = 0;  // bytes per second, of late
};

/// "model.safetensors  [=====>    ]  45 %  0.54 GB of 1.19 GB  23.4 MB/s  28 s left", at most
/// `width` characters if the file's name can be shortened that far.
std::string progress_text(const hub::FileProgress& progress, double rate, size_t width);

}  // namespace espalier::commands
