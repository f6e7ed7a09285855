#include "server/observe/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>

#include "server/observe/log_format.h"
#include "server/observe/stderr_sink.h"

namespace espalier::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// A pipe whose reader reads when it is told to.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    close_reader();
    close(ends_[1]);
  }
  int writer() const { return ends_[1]; }
  void close_reader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  /// Everything that is in it.
  std::string drain() const {
    std::string text;
    std::array<char, 65536> buffer{};
    pollfd readable{ends_[0], POLLIN, 0};
    while (poll(&readable, 1, 0) > 0) {
      const ssize_t size = read(ends_[0], buffer.data(), buffer.size());
      if (size <= 0) break;
      text.append(buffer.data(), static_cast<size_t>(size));
    }
    return text;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST(LineWriter, WritesLinesOfAnyLength) {
  Pipe pipe;
  LineWriter writer(pipe.writer(), milliseconds(1000));
  const std::string long_line = std::string(30000, 'x') + "\n";
  EXPECT_TRUE(writer.write("one\n"));
  EXPECT_TRUE(writer.write(long_line));
  EXPECT_EQ(pipe.drain(), "one\n" + long_line);
}

TEST(LineWriter, AReaderThatStopsCostsOneWaitAndThenLinesNotTime) {
  Pipe pipe;
  LineWriter writer(pipe.writer(), milliseconds(200));
  const std::string line = std::string(999, 'x') + "\n";
  auto started = Clock::now();
  while (writer.write(line)) started = Clock::now();
  EXPECT_GE(Clock::now() - started, milliseconds(199));
  started = Clock::now();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(writer.write(line));
  EXPECT_LT(Clock::now() - started, milliseconds(200));
  // Once it is read again, lines are whole again.
  const std::string before = pipe.drain();
  EXPECT_TRUE(writer.write("after\n"));
  EXPECT_EQ(before.size() % line.size(), 0U);
  EXPECT_EQ(pipe.drain(), "after\n");
}

TEST(LineWriter, WhatFollowsATornLineIsALineOfItsOwn) {
  Pipe pipe;
  LineWriter writer(pipe.writer(), milliseconds(10));
  const std::string endless(1 << 20, 'x');
  EXPECT_FALSE(writer.write(endless + "\n"));
  EXPECT_FALSE(writer.write("lost\n"));
  const std::string torn = pipe.drain();
  EXPECT_EQ(torn, endless.substr(0, torn.size()));
  EXPECT_TRUE(writer.write("after\n"));
  EXPECT_EQ(pipe.drain(), "\nafter\n");
}

TEST(LineWriter, ADescriptorThatSomebodyMadeNonBlockingIsNoBusyLoop) {
  Pipe pipe;
  fcntl(pipe.writer(), F_SETFL, O_NONBLOCK);
  LineWriter writer(pipe.writer(), milliseconds(10));
  const std::string line = std::string(5000, 'x') + "\n";
  int written = 0;
  while (writer.write(line)) ++written;
  EXPECT_GE(written, 5);
  EXPECT_FALSE(writer.write(line));
}

TEST(LineWriter, AReaderThatHasGoneIsNoFailure) {
  std::signal(SIGPIPE, SIG_IGN);  // as serve does
  Pipe pipe;
  pipe.close_reader();
  LineWriter writer(pipe.writer(), milliseconds(10));
  EXPECT_FALSE(writer.write("nobody\n"));
  EXPECT_FALSE(LineWriter(-1, milliseconds(10)).write("nowhere\n"));
}

TEST(StderrSink, SaysHowManyLinesWereLost) {
  Pipe pipe;
  const auto sink = std::make_shared<StderrSink>(pipe.writer(), milliseconds(10));
  sink->set_formatter(make_log_formatter(LogFormat::kText));
  spdlog::logger logger("test", sink);
  const std::string filler(999, 'x');
  for (int i = 0; i < 200; ++i) logger.info(filler);
  const std::string before = pipe.drain();
  const auto written = std::count(before.begin(), before.end(), '\n');
  logger.info("after");
  EXPECT_THAT(pipe.drain(),
              testing::ContainsRegex(" warning " + std::to_string(200 - written) +
                                     " log lines were lost: stderr was not read\n.* info after\n"));
  logger.info("once");
  EXPECT_THAT(pipe.drain(), testing::Not(testing::HasSubstr("lost")));
}

}  // namespace
}  // namespace espalier::server
