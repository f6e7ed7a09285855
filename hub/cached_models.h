// What the cache holds.
//
// Thread contract: none needed; other processes may change the folder meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace espalier::hub {

/// One snapshot, or a model of which there is none yet (`commit` is empty).
struct CachedModel {
  std::string repository;
  std::string commit;
  std::vector<std::string> revisions;  // that were this commit, last time they were asked for
  uint64_t bytes = 0;                  // of its files; those that snapshots share count for each
  uint64_t partial_bytes = 0;          // of files of the repository that are not complete
  std::vector<std::string> missing;    // files; none: the server can load it
  std::vector<std::string> gguf;       // its GGUF files
};

/// Sorted by name. A folder that does not exist is empty.
std::vector<CachedModel> cached_models(const std::filesystem::path& cache);

}  // namespace espalier::hub
