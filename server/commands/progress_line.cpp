#include "server/commands/progress_line.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "server/commands/logging.h"

namespace espalier::commands {

ProgressLine::ProgressLine()
    : terminal_(log_is_text() && isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::update(const std::function<std::string()>& text) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000)))
    return;
  last_ = now;
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", text().c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else {
    spdlog::info("{}", text());
  }
}

double ProgressLine::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string byte_text(size_t bytes) {
  std::array<char, 32> text{};
  const auto size = static_cast<double>(bytes);
  if (size >= 1e9) {
    std::snprintf(text.data(), text.size(), "%.2f GB", size / 1e9);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f MB", size / 1e6);
  }
  return text.data();
}

}  // namespace espalier::commands
