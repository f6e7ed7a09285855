// spdlog's way to stderr, which never blocks a thread for longer than a moment (line_writer.h).
// What was lost is said as soon as stderr is read again.
//
// Lines are written by whoever logs, not by a thread of their own: they are in order, none is
// missing after a crash, and nothing waits for a queue at the end.
//
// Thread contract: any thread.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>

#include "server/observe/line_writer.h"

namespace espalier::server {

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// Levels are coloured if stderr is a terminal.
  StderrSink();
  /// To another descriptor, for tests; not coloured.
  StderrSink(int descriptor, std::chrono::milliseconds patience);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  bool write(const spdlog::details::log_msg& message);

  LineWriter writer_;
  bool coloured_;
  uint64_t lost_ = 0;  // lines, since one was written
};

}  // namespace espalier::server
