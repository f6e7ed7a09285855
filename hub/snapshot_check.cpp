#include "hub/snapshot_check.h"

#include <fstream>

#include "hub/gguf_choice.h"
#include "hub/hub_error.h"
#include "hub/needed_files.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kSmallBytesMax = std::uintmax_t{64} << 20U;
constexpr int kDepthMax = 4;

/// Paths of regular files, links to them included, in `folder` and those below.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() >= kDepthMax) entry.disable_recursion_pending();
    std::error_code no_file;
    if (entry->is_regular_file(no_file))
      files.push_back(entry->path().lexically_relative(folder).generic_string());
  }
  return files;
}

}  // namespace

std::string read_small_file(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) throw HubError("cannot read " + file.string() + ": " + error.message());
  if (size > kSmallBytesMax) throw HubError(file.string() + " is too large for what it is");
  std::ifstream in(file, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (!in) throw HubError("cannot read " + file.string());
  return text;
}

SnapshotCheck check_snapshot(const fs::path& snapshot, const std::string& gguf,
                             const std::string& repository) {
  const std::vector<std::string> files = files_in(snapshot);
  const auto has = [&](const std::string& file) {
    std::error_code error;
    return fs::is_regular_file(snapshot / file, error);
  };
  if (reads_gguf(files, gguf)) {
    if (!any_gguf(files)) return {snapshot, {gguf}};
    return {snapshot / choose_gguf(files, gguf, repository), {}};
  }

  SnapshotCheck check{snapshot, {}};
  const auto require = [&](const std::string& file) {
    if (!has(file)) check.missing.push_back(file);
  };
  require("config.json");
  require("tokenizer.json");
  if (has(kModules)) {
    const fs::path file = snapshot / kModules;
    for (const Module& module : parse_modules(read_small_file(file), file.string()))
      for (const auto& needed : required_of_module(module)) require(needed);
  }
  if (has(kWeights) || !has(kWeightIndex)) {
    require(kWeights);
  } else {
    const fs::path file = snapshot / kWeightIndex;
    for (const auto& shard : parse_shards(read_small_file(file), file.string())) require(shard);
  }
  return check;
}

}  // namespace espalier::hub
