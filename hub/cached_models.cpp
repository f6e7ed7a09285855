#include "hub/cached_models.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "hub/cache_folder.h"
#include "hub/gguf_choice.h"
#include "hub/hub_error.h"
#include "hub/snapshot_check.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

/// Calls `use` with every entry below `folder`; folders that vanish or cannot be read have none.
template <typename Use>
void for_each_file(const fs::path& folder, const Use& use) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code no_file;
    if (entry->is_regular_file(no_file)) use(entry->path());
  }
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code no_folder;
    if (entry->is_directory(no_folder)) names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Files that several names lead to count once.
void add_files(const fs::path& snapshot, CachedModel& model) {
  std::set<std::pair<dev_t, ino_t>> seen;
  for_each_file(snapshot, [&](const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return;
    if (seen.emplace(status.st_dev, status.st_ino).second)
      model.bytes += static_cast<uint64_t>(status.st_size);
    const std::string name = file.lexically_relative(snapshot).generic_string();
    if (is_gguf(name)) model.gguf.push_back(name);
  });
  std::ranges::sort(model.gguf);
}

void check(const fs::path& snapshot, CachedModel& model) {
  try {
    // Which of several GGUF files is meant is said when one is used.
    const std::string gguf = model.gguf.empty() ? "" : model.gguf.front();
    model.missing = check_snapshot(snapshot, "", model.repository).missing;
    if (!model.missing.empty() && !gguf.empty()) model.missing.clear();
  } catch (const HubError& error) {
    if (model.gguf.empty()) model.missing = {error.what()};
  }
}

std::vector<CachedModel> snapshots_of(const fs::path& cache, const std::string& repository) {
  const CacheFolder folder(cache, repository);
  uint64_t partial_bytes = 0;
  for_each_file(folder.folder() / "blobs", [&](const fs::path& file) {
    std::error_code error;
    if (file.extension() == ".incomplete") partial_bytes += fs::file_size(file, error);
  });
  std::vector<CachedModel> models;
  for (const auto& commit : folders_in(folder.folder() / "snapshots")) {
    CachedModel model;
    model.repository = repository;
    model.commit = commit;
    model.partial_bytes = partial_bytes;
    const fs::path refs = folder.folder() / "refs";
    for_each_file(refs, [&](const fs::path& file) {
      const std::string revision = file.lexically_relative(refs).generic_string();
      if (folder.commit_of(revision) == commit) model.revisions.push_back(revision);
    });
    std::ranges::sort(model.revisions);
    add_files(folder.snapshot(commit), model);
    check(folder.snapshot(commit), model);
    models.push_back(std::move(model));
  }
  if (models.empty() && partial_bytes > 0) {
    models.emplace_back();
    models.back().repository = repository;
    models.back().partial_bytes = partial_bytes;
    models.back().missing = {"all files"};
  }
  return models;
}

}  // namespace

std::vector<CachedModel> cached_models(const fs::path& cache) {
  std::vector<CachedModel> models;
  for (const auto& name : folders_in(cache)) {
    const std::string repository = repository_of_folder(name);
    if (repository.empty()) continue;
    for (auto& model : snapshots_of(cache, repository)) models.push_back(std::move(model));
  }
  return models;
}

}  // namespace espalier::hub
