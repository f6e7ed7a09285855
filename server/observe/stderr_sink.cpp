#include "server/observe/stderr_sink.h"

#include <unistd.h>

#include <string>
#include <string_view>

namespace espalier::server {
namespace {

/// How long a reader may be behind before lines are lost.
constexpr std::chrono::milliseconds kPatience{100};

std::string_view colour_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "\033[36m";
    case spdlog::level::info:
      return "\033[32m";
    case spdlog::level::warn:
      return "\033[33m\033[1m";
    default:
      return "\033[31m\033[1m";
  }
}

}  // namespace

StderrSink::StderrSink()
    : writer_(STDERR_FILENO, kPatience), coloured_(isatty(STDERR_FILENO) == 1) {}

StderrSink::StderrSink(int descriptor, std::chrono::milliseconds patience)
    : writer_(descriptor, patience), coloured_(false) {}

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  if (lost_ > 0) {
    const std::string note = std::to_string(lost_) + " log lines were lost: stderr was not read";
    if (write({"espalier", spdlog::level::warn, note})) lost_ = 0;
  }
  if (!write(message)) ++lost_;
}

bool StderrSink::write(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  const std::string_view text(line.data(), line.size());
  if (!coloured_ || message.color_range_end <= message.color_range_start)
    return writer_.write(text);
  std::string coloured(text.substr(0, message.color_range_start));
  coloured += colour_of(message.level);
  coloured +=
      text.substr(message.color_range_start, message.color_range_end - message.color_range_start);
  coloured += "\033[0m";
  coloured += text.substr(message.color_range_end);
  return writer_.write(coloured);
}

}  // namespace espalier::server
