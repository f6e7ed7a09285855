#include "server/observe/process_figures.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace espalier::server {
namespace {

namespace fs = std::filesystem;

TEST(ProcessFigures, AreThisProcess) {
  // Work, so that there is CPU time to see: more than a tick of it.
  volatile double sum = 0;
  while (static_cast<double>(std::clock()) / CLOCKS_PER_SEC < 0.05) sum = sum + 1;
  const auto figures = read_process_figures();
  ASSERT_TRUE(figures);
  const double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  EXPECT_NEAR(figures->cpu_seconds, cpu, 0.03);
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  EXPECT_LE(figures->start_time, now.count() + 1);
  EXPECT_GE(figures->start_time, now.count() - 3600);
  EXPECT_GT(figures->resident_bytes, 1U << 20U);
  EXPECT_GT(figures->virtual_bytes, figures->resident_bytes);
  EXPECT_GE(figures->memory_limit_bytes, figures->resident_bytes);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(figures->max_fds, limit.rlim_cur);
}

TEST(ProcessFigures, FollowThreadsDescriptorsAndMemory) {
  const auto before = read_process_figures();
  std::vector<int> descriptors;
  for (int i = 0; i < 20; ++i) descriptors.push_back(dup(STDERR_FILENO));
  std::vector<char> memory(size_t{64} << 20U, 'x');
  std::optional<ProcessFigures> during;
  std::thread other([&] { during = read_process_figures(); });
  other.join();
  ASSERT_TRUE(before && during);
  EXPECT_EQ(during->open_fds, before->open_fds + 20);
  EXPECT_EQ(during->threads, before->threads + 1);
  EXPECT_GE(during->resident_bytes, before->resident_bytes + memory.size() * 9 / 10);
  for (const int descriptor : descriptors) close(descriptor);
  EXPECT_EQ(read_process_figures()->open_fds, before->open_fds);
}

TEST(ProcessFigures, WithoutADescriptorLeftAllCountAsOpen) {
  std::vector<int> descriptors;
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  // One for the file, none for the folder: it is opened while the file is.
  rlimit low = old;
  for (int next = 0; (next = dup(STDERR_FILENO)) >= 0;) {
    descriptors.push_back(next);
    if (descriptors.size() == 5) {
      low.rlim_cur = static_cast<rlim_t>(next) + 2;
      setrlimit(RLIMIT_NOFILE, &low);
    }
  }
  close(descriptors.back());
  descriptors.pop_back();
  const auto figures = read_process_figures();
  for (const int descriptor : descriptors) close(descriptor);
  setrlimit(RLIMIT_NOFILE, &old);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->max_fds, low.rlim_cur);
  EXPECT_EQ(figures->open_fds, figures->max_fds);
}

/// A /proc and a /sys/fs/cgroup of our own.
class MadeUpProcess : public testing::Test {
 protected:
  MadeUpProcess()
      : root_(fs::path(testing::TempDir()) / ("espalier_proc_" + std::to_string(getpid()))) {
    write("proc/self/stat",
          "42 (a (strange) name) S 1 1 1 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 7 0 1000 "
          "123456789 300 18446744073709551615 1 1");
    write("proc/stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 5\n");
    write("proc/meminfo", "MemFree: 1 kB\nMemTotal:        8192 kB\n");
  }
  ~MadeUpProcess() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::optional<ProcessFigures> read() const {
    return read_process_figures(root_ / "proc", root_ / "cgroup");
  }
  uint64_t memory_limit() const { return read().value().memory_limit_bytes; }

  fs::path root_;
};

TEST_F(MadeUpProcess, FieldsAreFoundBehindAStrangeName) {
  const auto figures = read();
  ASSERT_TRUE(figures);
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(figures->cpu_seconds, 400 / ticks);
  EXPECT_EQ(figures->threads, 7U);
  EXPECT_DOUBLE_EQ(figures->start_time, 1.7e9 + 1000 / ticks);
  EXPECT_EQ(figures->virtual_bytes, 123456789U);
  EXPECT_EQ(figures->resident_bytes, 300U * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(figures->open_fds, 0U);
}

TEST_F(MadeUpProcess, WhatCannotBeReadIsNoFigure) {
  for (const char* stat : {"", "42", "42 (name", "42 (name) S 1 2 3", "42 (name) S a b c"}) {
    write("proc/self/stat", stat);
    EXPECT_FALSE(read()) << stat;
  }
  fs::remove(root_ / "proc/self/stat");
  EXPECT_FALSE(read());
}

TEST_F(MadeUpProcess, MemoryIsLimitedByTheTightestGroupOrTheMachine) {
  EXPECT_EQ(memory_limit(), 8192U << 10U);
  write("proc/self/cgroup", "0::/pods/pod1\n");
  write("cgroup/memory.max", "max\n");
  write("cgroup/pods/memory.max", "5000000\n");
  write("cgroup/pods/pod1/memory.max", "6000000\n");
  EXPECT_EQ(memory_limit(), 5000000U);
  write("proc/self/cgroup", "5:cpu,cpuacct:/pods\n4:memory:/docker/1\n");
  EXPECT_EQ(memory_limit(), 8192U << 10U);
  write("cgroup/memory/docker/1/memory.limit_in_bytes", "4000000\n");
  EXPECT_EQ(memory_limit(), 4000000U);
}

}  // namespace
}  // namespace espalier::server
