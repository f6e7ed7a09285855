// How much memory the system lets this process have.
//
// Thread contract: stateless.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace espalier::commands {

struct MemoryLimit {
  uint64_t bytes = UINT64_MAX;  // of memory that cannot be dropped and read again
  std::string source;           // "the control group's limit"
  // Of the address space, which maps of files and the stacks of threads count in, too: what
  // RLIMIT_AS leaves beyond that in use; UINT64_MAX: no such limit.
  uint64_t address_space = UINT64_MAX;
};

/// The smallest limit of the process's control group and those above it (v1 and v2); without one
/// that is less than the machine's memory, what the machine has available. `proc` and `cgroups` as
/// for server::read_process_figures(). What cannot be read is no limit.
MemoryLimit memory_limit(const std::filesystem::path& proc = "/proc",
                         const std::filesystem::path& cgroups = "/sys/fs/cgroup");

/// Bytes of memory that this process has and no file backs; 0 if the system does not tell.
uint64_t anonymous_bytes_in_use(const std::filesystem::path& proc = "/proc");

}  // namespace espalier::commands
