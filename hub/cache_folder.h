// The cache that Hugging Face's tools share, of one repository:
//
//   CACHE/models--ORG--NAME/refs/REVISION          the commit that the revision was, last time
//                           blobs/ETAG             contents; ETAG.incomplete while they come
//                           snapshots/COMMIT/FILE  relative links to them
//                           .no_exist/COMMIT/FILE  empty: the commit is known to lack the file
//   CACHE/.locks/models--ORG--NAME/ETAG.lock
//
// Thread contract: one thread; other processes may change the folder at any time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace espalier::hub {

class CacheFolder {
 public:
  CacheFolder(const std::filesystem::path& cache, const std::string& repository);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path partial(const std::string& etag) const;
  /// Its folder is made.
  std::filesystem::path lock(const std::string& etag) const;

  /// Throws HubError if the folders cannot be made.
  void make_folders(const std::string& commit) const;

  /// The commit that `revision` was when it was fetched; `revision` itself if it is one.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// Throws HubError.
  void remember(const std::string& revision, const std::string& commit) const;

  bool has(const std::string& commit, const std::string& file) const;
  /// Puts the blob into the snapshot: as a link, or itself if the file system has none. Throws
  /// HubError.
  void put(const std::string& commit, const std::string& file, const std::string& etag) const;

  /// Whether the commit is known to lack the file.
  bool lacks(const std::string& commit, const std::string& file) const;
  /// Remembers that; a folder that cannot be written to is no failure.
  void remember_lack(const std::string& commit, const std::string& file) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path locks_;
};

/// Of "models--ORG--NAME"; empty if a folder of that name is no model's.
std::string repository_of_folder(const std::string& name);

}  // namespace espalier::hub
