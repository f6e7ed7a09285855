#include "server/observe/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

namespace espalier::server {
namespace {

namespace fs = std::filesystem;

/// The value behind `name` in a file of lines "name value …"; 0 if there is none.
uint64_t value_of(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word && word == name && words >> value) return value;
  }
  return 0;
}

/// The soft limit on file descriptors.
uint64_t descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

uint64_t count_descriptors(const fs::path& folder, uint64_t max) {
  std::error_code error;
  uint64_t count = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  // None was left to read the folder with: all are open.
  if (error == std::errc::too_many_files_open) return max;
  return count > 0 ? count - 1 : 0;  // without the one that read the folder
}

/// The limit that a group's file holds; none: the largest number. "max" is no number.
uint64_t limit_in(const fs::path& file) {
  std::ifstream in(file);
  uint64_t limit = 0;
  return in >> limit && limit > 0 ? limit : std::numeric_limits<uint64_t>::max();
}

}  // namespace

uint64_t group_memory_limit(const fs::path& self_cgroup, const fs::path& cgroups) {
  std::ifstream in(self_cgroup);
  uint64_t smallest = std::numeric_limits<uint64_t>::max();
  // Lines are "id:controllers:path"; v2 has no controllers.
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") continue;
    // Beyond memory.high a group is slowed down until it stands still: a limit in all but name.
    const auto limit_of = [v2](const fs::path& folder) {
      if (!v2) return limit_in(folder / "memory.limit_in_bytes");
      return std::min(limit_in(folder / "memory.max"), limit_in(folder / "memory.high"));
    };
    // A container often sees its own group as the root, under a path that does not exist there.
    fs::path group = v2 ? cgroups : cgroups / "memory";
    smallest = std::min(smallest, limit_of(group));
    for (const fs::path& part : fs::path(line.substr(second + 1)).relative_path()) {
      if (part == "..") break;  // outside of what this namespace shows
      group /= part;
      smallest = std::min(smallest, limit_of(group));
    }
  }
  return smallest;
}

std::optional<ProcessFigures> read_process_figures(const fs::path& proc, const fs::path& cgroups) {
  std::ifstream in(proc / "self" / "stat");
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  // "PID (NAME) STATE …": the name may hold anything, also parentheses. Numbers by proc(5).
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  const auto skip = [&](int count) {
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  uint64_t user_ticks = 0, system_ticks = 0, start_ticks = 0, resident_pages = 0;
  ProcessFigures figures;
  skip(11);  // fields 3 … 13
  fields >> user_ticks >> system_ticks;
  skip(4);  // 16 … 19
  fields >> figures.threads;
  skip(1);  // 21
  fields >> start_ticks >> figures.virtual_bytes >> resident_pages;
  if (!fields) return std::nullopt;

  const auto ticks_per_second = static_cast<double>(std::max(sysconf(_SC_CLK_TCK), 1L));
  figures.cpu_seconds = static_cast<double>(user_ticks + system_ticks) / ticks_per_second;
  figures.start_time = static_cast<double>(value_of(proc / "stat", "btime")) +
                       static_cast<double>(start_ticks) / ticks_per_second;
  figures.resident_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  figures.max_fds = descriptor_limit();
  figures.open_fds = count_descriptors(proc / "self" / "fd", figures.max_fds);
  figures.memory_limit_bytes = std::min(value_of(proc / "meminfo", "MemTotal:") * 1024,
                                        group_memory_limit(proc / "self" / "cgroup", cgroups));
  return figures;
}

}  // namespace espalier::server
