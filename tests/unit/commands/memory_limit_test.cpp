#include "server/commands/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest()
      : root_(fs::path(::testing::TempDir()) / ("espalier_memory_" + std::to_string(::getpid()))) {
    write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:   700 kB\n");
    write("proc/self/status", "Name:\tespalier\nVmSize:\t 200 kB\nRssAnon:\t  50 kB\n");
  }
  ~MemoryLimitTest() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  MemoryLimit limit() const { return memory_limit(root_ / "proc", root_ / "cgroup"); }

  fs::path root_;
};

TEST_F(MemoryLimitTest, WithoutAGroupItIsWhatTheMachineHasAvailable) {
  EXPECT_EQ(limit().bytes, 700U * 1024);
  EXPECT_EQ(limit().source, "the machine's available memory");
}

TEST_F(MemoryLimitTest, TheSmallestOfNestedGroupsCounts) {
  write("proc/self/cgroup", "0::/pod/container\n");
  write("cgroup/pod/memory.max", "500000\n");
  write("cgroup/pod/container/memory.max", "max\n");
  EXPECT_EQ(limit().bytes, 500000U);
  EXPECT_EQ(limit().source, "the control group's limit");
  write("cgroup/pod/container/memory.max", "400000\n");
  EXPECT_EQ(limit().bytes, 400000U);
}

TEST_F(MemoryLimitTest, WhereAGroupIsSlowedDownIsItsLimit) {
  write("proc/self/cgroup", "0::/pod/container\n");
  write("cgroup/pod/container/memory.max", "500000\n");
  write("cgroup/pod/container/memory.high", "400000\n");
  EXPECT_EQ(limit().bytes, 400000U);
  write("cgroup/pod/memory.high", "300000\n");
  EXPECT_EQ(limit().bytes, 300000U);
  write("cgroup/pod/memory.high", "max\n");
  write("cgroup/pod/container/memory.high", "max\n");
  EXPECT_EQ(limit().bytes, 500000U);
}

TEST_F(MemoryLimitTest, VersionOneHasFilesOfItsOwn) {
  write("proc/self/cgroup", "4:memory:/docker/1\n3:cpu:/docker/1\n0::/\n");
  // Its own group is often mounted as the root.
  write("cgroup/memory/memory.limit_in_bytes", "300000\n");
  EXPECT_EQ(limit().bytes, 300000U);
}

TEST_F(MemoryLimitTest, AGroupThatMayHaveMoreThanTheMachineIsNoLimit) {
  write("proc/self/cgroup", "4:memory:/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit().source, "the machine's available memory");
}

TEST_F(MemoryLimitTest, WhatCannotBeReadIsNoLimit) {
  fs::remove_all(root_ / "proc");
  EXPECT_EQ(limit().bytes, UINT64_MAX);
  EXPECT_EQ(anonymous_bytes_in_use(root_ / "proc"), 0U);
}

TEST_F(MemoryLimitTest, AnonymousMemoryIsReadFromTheProcess) {
  EXPECT_EQ(anonymous_bytes_in_use(root_ / "proc"), 50U * 1024);
  EXPECT_GT(anonymous_bytes_in_use(), 0U);
}

}  // namespace
}  // namespace espalier::commands
