#include "server/observe/log_format.h"

#include <spdlog/pattern_formatter.h>

#include <string>
#include <string_view>
#include <utility>

#include "server/observe/log_text.h"

namespace espalier::server {
namespace {

/// %*: what was logged, kept within its line.
class Message final : public spdlog::custom_flag_formatter {
 public:
  explicit Message(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    text_.clear();
    if (format_ == LogFormat::kText) {
      append_printable(payload, text_);
    } else if (logger == kStructuredLogger) {
      text_ = payload;
    } else {
      text_ = "\"message\":";
      append_quoted(payload, text_);
    }
    out.append(text_.data(), text_.data() + text_.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Message>(format_);
  }

 private:
  LogFormat format_;
  std::string text_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_log_formatter(LogFormat format) {
  spdlog::pattern_formatter::custom_flags flags;
  flags['*'] = std::make_unique<Message>(format);
  // Times as in RFC 3339.
  if (format == LogFormat::kText) {
    return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %*",
                                                       spdlog::pattern_time_type::local, "\n",
                                                       std::move(flags));
  }
  return std::make_unique<spdlog::pattern_formatter>(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%*})", spdlog::pattern_time_type::utc, "\n",
      std::move(flags));
}

}  // namespace espalier::server
