// What the operating system says of this process (Linux: /proc, limits, cgroup).
//
// Thread contract: stateless.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace espalier::server {

struct ProcessFigures {
  double cpu_seconds = 0;           // user and system, of all threads
  uint64_t resident_bytes = 0;      // in memory, the pages of mapped files included
  uint64_t virtual_bytes = 0;       // address space
  uint64_t threads = 0;             //
  double start_time = 0;            // seconds since 1970
  uint64_t open_fds = 0;            // file descriptors: sockets, files, …
  uint64_t max_fds = 0;             // the soft limit of them
  uint64_t memory_limit_bytes = 0;  // the smallest of the machine's memory and its groups' limits
};

/// Of the process whose folder is `proc`/self; `cgroups` is where its groups are mounted. nullopt
/// if `proc` does not tell.
std::optional<ProcessFigures> read_process_figures(
    const std::filesystem::path& proc = "/proc",
    const std::filesystem::path& cgroups = "/sys/fs/cgroup");

/// The smallest memory limit of the groups that `self_cgroup` (normally /proc/self/cgroup) names
/// and those above them, in v1 and v2; none: the largest number.
uint64_t group_memory_limit(const std::filesystem::path& self_cgroup,
                            const std::filesystem::path& cgroups);

}  // namespace espalier::server
