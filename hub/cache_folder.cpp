#include "hub/cache_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "hub/hub_error.h"
#include "hub/model_reference.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSeparator = "--";

std::string folder_name(const std::string& repository) {
  std::string name(kPrefix);
  const size_t slash = repository.find('/');
  return name.append(repository, 0, slash).append(kSeparator).append(repository, slash + 1);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw HubError("cannot make the folder " + folder.string() + ": " + error.message() +
                   "; set HF_HUB_CACHE to one that can be written to");
  }
}

bool links_are_impossible(int error) {
  return error == EPERM || error == ENOSYS || error == EOPNOTSUPP || error == ENOTSUP ||
         error == EINVAL;
}

}  // namespace

CacheFolder::CacheFolder(const fs::path& cache, const std::string& repository)
    : folder_(cache / folder_name(repository)),
      locks_(cache / ".locks" / folder_name(repository)) {}

fs::path CacheFolder::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}
fs::path CacheFolder::blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
fs::path CacheFolder::partial(const std::string& etag) const {
  return folder_ / "blobs" / (etag + ".incomplete");
}
fs::path CacheFolder::lock(const std::string& etag) const {
  make_folder(locks_);
  return locks_ / (etag + ".lock");
}

void CacheFolder::make_folders(const std::string& commit) const {
  make_folder(folder_ / "blobs");
  make_folder(snapshot(commit));
}

std::optional<std::string> CacheFolder::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  std::ifstream in(folder_ / "refs" / revision);
  std::string commit;
  constexpr int kMore = 8;  // a line break may follow
  char text[40 + kMore];
  in.read(text, sizeof text);
  commit.assign(text, static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  commit.erase(std::min(commit.find_first_of(" \r\n"), commit.size()));
  if (!is_commit(commit)) return std::nullopt;
  return commit;
}

void CacheFolder::remember(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) return;
  const fs::path file = folder_ / "refs" / revision;
  make_folder(file.parent_path());
  const fs::path beside = folder_ / (".ref-" + std::to_string(::getpid()));
  std::ofstream(beside) << commit;
  std::error_code error;
  if (fs::file_size(beside, error) != commit.size() || error) {
    fs::remove(beside, error);
    throw HubError("cannot write " + beside.string());
  }
  fs::rename(beside, file, error);
  if (error) throw HubError("cannot write " + file.string() + ": " + error.message());
}

bool CacheFolder::has(const std::string& commit, const std::string& file) const {
  std::error_code error;
  return fs::is_regular_file(snapshot(commit) / file, error);
}

void CacheFolder::put(const std::string& commit, const std::string& file,
                      const std::string& etag) const {
  const fs::path place = snapshot(commit) / file;
  make_folder(place.parent_path());
  fs::path target = fs::path("..") / "..";
  for (auto slashes = std::ranges::count(file, '/'); slashes > 0; --slashes) target /= "..";
  target = target / "blobs" / etag;

  if (::symlink(target.c_str(), place.c_str()) == 0) return;
  std::error_code error;
  if (errno == EEXIST) {
    if (fs::is_symlink(place, error) && fs::read_symlink(place, error) == target) return;
    // Something else is there, or a link that leads nowhere.
    const fs::path beside = place.string() + ".new-" + std::to_string(::getpid());
    fs::remove(beside, error);
    if (::symlink(target.c_str(), beside.c_str()) == 0) {
      fs::rename(beside, place, error);
      if (!error) return;
      fs::remove(beside, error);
    }
  }
  if (links_are_impossible(errno)) {
    fs::rename(blob(etag), place, error);
    if (!error) return;
  }
  throw HubError("cannot put " + file + " into " + snapshot(commit).string() + ": " +
                 std::strerror(errno));
}

bool CacheFolder::lacks(const std::string& commit, const std::string& file) const {
  std::error_code error;
  return fs::exists(folder_ / ".no_exist" / commit / file, error);
}

void CacheFolder::remember_lack(const std::string& commit, const std::string& file) const {
  const fs::path place = folder_ / ".no_exist" / commit / file;
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  const std::ofstream made(place);
}

std::string repository_of_folder(const std::string& name) {
  if (!name.starts_with(kPrefix)) return "";
  std::string repository = name.substr(kPrefix.size());
  const size_t separator = repository.find(kSeparator);
  if (separator == std::string::npos) return "";  // of the time before there were organisations
  repository.replace(separator, kSeparator.size(), "/");
  return looks_like_reference(repository) ? repository : "";
}

}  // namespace espalier::hub
