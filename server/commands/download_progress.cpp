#include "server/commands/download_progress.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "server/commands/logging.h"
#include "server/commands/progress_line.h"

namespace espalier::commands {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{100};
constexpr std::chrono::milliseconds kLogPeriod{5000};
constexpr uint64_t kLoggedBytesMin = 1'000'000;  // files that are there at once need no line each
constexpr size_t kBarCellsMin = 5;               // a narrower bar says nothing
constexpr size_t kBarCellsMax = 20;
constexpr size_t kNameCharactersMin = 12;
constexpr size_t kWidthOfLogLines = 200;
constexpr double kRateMemorySeconds = 3;

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// "28 s", "4 min 05 s", "2 h 10 min".
std::string duration_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::min(seconds + 0.5, 1e6));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

/// "  [===>   ]", as wide as `room` allows; "" if that is too little.
std::string bar(double share, size_t room) {
  constexpr size_t kFrame = 4;
  const size_t count = std::min(kBarCellsMax, room > kFrame ? room - kFrame : 0);
  if (count < kBarCellsMin) return "";
  std::string cells(std::min(static_cast<size_t>(share * static_cast<double>(count)), count), '=');
  if (cells.size() < count) cells += '>';
  cells.resize(count, ' ');
  return "  [" + cells + "]";
}

/// Names come from the hub; a terminal would obey what control characters say.
std::string printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name;
}

}  // namespace

std::string progress_text(const hub::FileProgress& progress, double rate, size_t width) {
  const double share = progress.total == 0 ? 1.0
                                           : static_cast<double>(progress.done) /
                                                 static_cast<double>(progress.total);
  std::string rest = fmt::format("  {:3.0f} %  {} of {}", 100 * share, byte_text(progress.done),
                                 byte_text(progress.total));
  if (rate >= 1) {
    const auto left = static_cast<double>(progress.total - progress.done) / rate;
    rest +=
        fmt::format("  {}/s  {} left", byte_text(static_cast<size_t>(rate)), duration_text(left));
  }
  std::string name = printable(progress.file);
  const size_t room =
      std::max(kNameCharactersMin, width > rest.size() ? width - rest.size() : size_t{0});
  // The end of a shard's name tells it from the others.
  if (name.size() > room) name = "..." + name.substr(name.size() - room + 3);
  const size_t used = name.size() + rest.size();
  return name + bar(share, width > used ? width - used : 0) + rest;
}

DownloadProgress::DownloadProgress() : terminal_(log_is_text() && isatty(STDERR_FILENO) == 1) {}

DownloadProgress::~DownloadProgress() { erase(); }

void DownloadProgress::begin(const hub::FileProgress& progress) {
  file_ = progress.file;
  begun_ = told_ = measured_ = Clock::now();
  measured_done_ = progress.done;
  rate_ = 0;
  if (progress.resumed > 0) {
    erase();
    spdlog::info("{}: going on after {} of {}", printable(file_), byte_text(progress.resumed),
                 byte_text(progress.total));
  }
}

/// An average in which what is some seconds old hardly counts.
void DownloadProgress::measure_rate(uint64_t done, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - measured_).count();
  if (seconds < 0.25 && rate_ > 0) return;
  if (seconds <= 0 || done < measured_done_) {  // it has begun from its beginning again
    measured_done_ = done;
    return;
  }
  const double current = static_cast<double>(done - measured_done_) / seconds;
  const double weight = rate_ == 0 ? 1 : std::min(1.0, seconds / kRateMemorySeconds);
  rate_ += weight * (current - rate_);
  measured_ = now;
  measured_done_ = done;
}

void DownloadProgress::update(const hub::FileProgress& progress) {
  if (progress.file != file_ && !progress.complete) begin(progress);
  const auto now = Clock::now();
  if (progress.complete) {
    const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begun_).count());
    const uint64_t fetched = progress.total - std::min(progress.resumed, progress.total);
    const std::string line =
        fmt::format("{}  {}  in {}  ({}/s)", printable(progress.file), byte_text(progress.total),
                    duration_text(seconds),
                    byte_text(static_cast<size_t>(static_cast<double>(fetched) / seconds)));
    file_.clear();
    if (terminal_) {
      draw(line, true);
    } else if (progress.total >= kLoggedBytesMin) {
      spdlog::info("fetched {}", line);
    }
    return;
  }
  const auto period = terminal_ ? kTerminalPeriod : kLogPeriod;
  if (now - told_ < period) return;
  told_ = now;
  measure_rate(progress.done, now);
  if (terminal_) {
    draw(progress_text(progress, rate_, terminal_width() - 1), false);
  } else {
    spdlog::info("{}", progress_text(progress, rate_, kWidthOfLogLines));
  }
}

void DownloadProgress::warn(const std::string& message) {
  erase();
  spdlog::warn("{}", message);
}

void DownloadProgress::draw(const std::string& line, bool stays) {
  std::fprintf(stderr, "\r\033[K%s%s", line.c_str(), stays ? "\n" : "");
  std::fflush(stderr);
  drawn_ = !stays;
}

void DownloadProgress::erase() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace espalier::commands
