#include "engine/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/thread_pool.h"

namespace espalier::engine {
namespace {

namespace fs = std::filesystem;

/// A tree of cgroup files of the test's own.
class CpuQuota : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("cpu_quota_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& relative, const std::string& text) {
    fs::create_directories((root_ / relative).parent_path());
    std::ofstream(root_ / relative) << text;
  }
  double quota() const { return cgroup_cpu_quota(root_ / "self", root_ / "sys"); }

 private:
  fs::path root_;
};

TEST_F(CpuQuota, MissingFilesMeanNoQuota) { EXPECT_EQ(quota(), kNoCpuQuota); }

TEST_F(CpuQuota, VersionTwoReadsCpuMax) {
  write("self", "0::/kubepods/pod1\n");
  write("sys/kubepods/pod1/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, VersionTwoMaxMeansNoQuota) {
  write("self", "0::/\n");
  write("sys/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST_F(CpuQuota, TheTightestAncestorCounts) {
  write("self", "0::/a/b\n");
  write("sys/a/cpu.max", "200000 100000\n");
  write("sys/a/b/cpu.max", "800000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 2.0);
}

TEST_F(CpuQuota, VersionOneReadsQuotaAndPeriod) {
  write("self", "5:devices:/\n4:cpu,cpuacct:/docker/1234\n");
  write("sys/cpu,cpuacct/docker/1234/cpu.cfs_quota_us", "50000\n");
  write("sys/cpu,cpuacct/docker/1234/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, VersionOneMinusOneMeansNoQuota) {
  write("self", "4:cpu:/\n");
  write("sys/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST_F(CpuQuota, AContainersGroupIsFoundAtTheMountsRoot) {
  write("self", "4:cpu:/docker/1234\n");
  write("sys/cpu/cpu.cfs_quota_us", "300000\n");
  write("sys/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota(), 3.0);
}

TEST_F(CpuQuota, CpuacctAloneIsNotTheCpuController) {
  write("self", "4:cpuacct:/\n");
  write("sys/cpuacct/cpu.cfs_quota_us", "100000\n");
  write("sys/cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST_F(CpuQuota, NonsenseCountsAsNoQuota) {
  write("self", "0::/x\nno colons\n:\n4:cpu:/../../..\n");
  write("sys/x/cpu.max", "0 0\n");
  write("sys/cpu/cpu.cfs_quota_us", "many\n");
  write("sys/cpu.max", "-5 100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST(UsableCpus, IsAtLeastOne) { EXPECT_GE(usable_cpus(), 1u); }

}  // namespace
}  // namespace espalier::engine
