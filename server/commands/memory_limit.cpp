#include "server/commands/memory_limit.h"

#include <sys/resource.h>

#include <fstream>
#include <optional>
#include <string>

#include "server/observe/process_figures.h"

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

/// The bytes of a line "NAME: 123 kB".
std::optional<uint64_t> bytes_in(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  std::string word;
  uint64_t kilobytes = 0;
  for (std::string line; in >> word; std::getline(in, line)) {
    if (word == name + ":" && in >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

uint64_t address_space_left(const fs::path& proc) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const uint64_t used = bytes_in(proc / "self" / "status", "VmSize").value_or(0);
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

MemoryLimit memory_limit(const fs::path& proc, const fs::path& cgroups) {
  MemoryLimit limit;
  limit.address_space = address_space_left(proc);
  const uint64_t group = server::group_memory_limit(proc / "self" / "cgroup", cgroups);
  const uint64_t machine = bytes_in(proc / "meminfo", "MemTotal").value_or(UINT64_MAX);
  if (group < machine) {
    limit.bytes = group;
    limit.source = "the control group's limit";
  } else if (const auto available = bytes_in(proc / "meminfo", "MemAvailable")) {
    limit.bytes = *available;
    limit.source = "the machine's available memory";
  }
  return limit;
}

uint64_t anonymous_bytes_in_use(const fs::path& proc) {
  return bytes_in(proc / "self" / "status", "RssAnon").value_or(0);
}

}  // namespace espalier::commands
