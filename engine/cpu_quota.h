// The CPU quota of a control group (cgroup v1 and v2): how many CPUs' worth of time a container
// gets.
//
// Thread contract: stateless.
#pragma once

#include <filesystem>
#include <limits>

namespace espalier::engine {

/// No quota at all.
inline constexpr double kNoCpuQuota = std::numeric_limits<double>::infinity();

/// The smallest quota, in CPUs, of the groups that `proc_self_cgroup` (normally /proc/self/cgroup)
/// names and of all their ancestors below `cgroup_root` (normally /sys/fs/cgroup). Files that are
/// missing or unreadable count as "no quota": a wrong guess costs speed, never the start.
double cgroup_cpu_quota(const std::filesystem::path& proc_self_cgroup,
                        const std::filesystem::path& cgroup_root);

}  // namespace espalier::engine
