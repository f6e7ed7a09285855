// How log lines look: text for people, or JSON for programs, one object a line.
//
//   2026-11-21T12:47:32.123+00:00 info espalier-mini is ready at http://127.0.0.1:8080
//   {"time":"2026-11-21T12:47:32.123Z","level":"info","message":"espalier-mini is ready at …"}
//
// Thread contract: functions without state.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace espalier::server {

enum class LogFormat : uint8_t { kText, kJson };

/// The logger of this name writes its own members of a JSON object instead of a message; in text
/// its messages are like any other.
inline constexpr char kStructuredLogger[] = "access";

std::unique_ptr<spdlog::formatter> make_log_formatter(LogFormat format);

}  // namespace espalier::server
