#include "engine/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace espalier::engine {
namespace {

namespace fs = std::filesystem;

/// cgroup v2: "max 100000" or "150000 100000", quota and period in microseconds.
double quota_of_v2_group(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota_us = 0, period_us = 0;
  // "max" is not a number: the read fails, and there is no quota.
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return kNoCpuQuota;
  return quota_us / period_us;
}

/// cgroup v1: the quota is -1 when there is none.
double quota_of_v1_group(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  double quota_us = 0, period_us = 0;
  if (!(quota_file >> quota_us) || !(period_file >> period_us)) return kNoCpuQuota;
  if (quota_us <= 0 || period_us <= 0) return kNoCpuQuota;
  return quota_us / period_us;
}

/// The smallest quota of `group` (a path such as "/docker/1234") and its ancestors below `mount`. A
/// container often sees its own group mounted as the root, under a path that does not exist there;
/// walking up finds it all the same.
template <typename QuotaOfGroup>
double smallest_quota(const fs::path& mount, const std::string& group,
                      QuotaOfGroup quota_of_group) {
  double smallest = quota_of_group(mount);
  fs::path directory = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") break;  // outside of what this namespace shows
    directory /= part;
    smallest = std::min(smallest, quota_of_group(directory));
  }
  return smallest;
}

bool names_cpu_controller(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cgroup_cpu_quota(const fs::path& proc_self_cgroup, const fs::path& cgroup_root) {
  std::ifstream file(proc_self_cgroup);
  double smallest = kNoCpuQuota;
  // Lines are "id:controllers:path"; v2 has id 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      // "unified" is where a machine that uses both versions mounts v2.
      for (const fs::path& mount : {cgroup_root, cgroup_root / "unified"}) {
        smallest = std::min(smallest, smallest_quota(mount, group, quota_of_v2_group));
      }
    } else if (names_cpu_controller(controllers)) {
      for (const fs::path& mount : {cgroup_root / "cpu", cgroup_root / controllers}) {
        smallest = std::min(smallest, smallest_quota(mount, group, quota_of_v1_group));
      }
    }
  }
  return smallest;
}

}  // namespace espalier::engine
