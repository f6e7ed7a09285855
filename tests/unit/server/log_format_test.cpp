#include "server/observe/log_format.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>

#include "server/observe/log_text.h"
#include "text/utf8.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::MatchesRegex;

/// What a logger writes of one message.
std::string logged(LogFormat format, const std::string& message, const char* logger = "espalier") {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(out);
  sink->set_formatter(make_log_formatter(format));
  spdlog::logger(logger, sink).warn(spdlog::string_view_t(message));
  return out.str();
}

bool has_control_characters(std::string_view line) {
  for (size_t at = 0; at < line.size();) {
    const auto character = text::decode_utf8(line, at);
    const char32_t c = character.code_point;
    if (!character.valid || c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
    at += character.length;
  }
  return false;
}

TEST(LogFormat, TextLinesHaveTimeLevelAndMessage) {
  EXPECT_THAT(logged(LogFormat::kText, "a \"quoted\" \\ word, ünïcödé"),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}"
                           "[+-][0-9]{2}:[0-9]{2} warning a \"quoted\" \\\\ word, ünïcödé\n"));
}

TEST(LogFormat, JsonLinesAreObjectsWithTheTimeInUtc) {
  const std::string line = logged(LogFormat::kJson, "a \"quoted\" \\ word\n");
  const json entry = json::parse(line);
  EXPECT_EQ(entry["message"], "a \"quoted\" \\ word\n");
  EXPECT_EQ(entry["level"], "warning");
  EXPECT_THAT(entry["time"].get<std::string>(),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"));
  EXPECT_EQ(entry.size(), 3U);
}

TEST(LogFormat, StructuredLinesAreMembersOfTheObject) {
  const json entry = json::parse(
      logged(LogFormat::kJson, R"("message":"request","status":200)", kStructuredLogger));
  EXPECT_EQ(entry["status"], 200);
  EXPECT_EQ(entry.size(), 4U);
}

TEST(LogFormat, NoMessageBreaksItsLine) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> byte(0, 255);
  for (int round = 0; round < 2000; ++round) {
    std::string message(static_cast<size_t>(round % 40), '\0');
    for (char& c : message) c = static_cast<char>(byte(random));
    for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      std::string line = logged(format, message);
      ASSERT_TRUE(line.ends_with('\n'));
      line.pop_back();
      ASSERT_FALSE(has_control_characters(line)) << line;
      if (format != LogFormat::kJson) continue;
      ASSERT_EQ(json::parse(line)["message"], text::replace_invalid_utf8(message));
    }
  }
}

TEST(LogText, TerminalsAreNotCommanded) {
  std::string out;
  append_printable("\x1b[2J\x07 \xc2\x9b \x7f tab\tend\r\n \xff ✓", out);
  EXPECT_EQ(out, "\\u001b[2J\\u0007 \\u009b \\u007f tab\\tend\\r\\n \xef\xbf\xbd ✓");
}

}  // namespace
}  // namespace espalier::server
