#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr mode_t kMode = 0666;  // less the umask
constexpr size_t kPieceBytes = size_t{1} << 20U;
constexpr const char* kMakeRoom =
    "make room there, or set HF_HUB_CACHE to a folder of another disk; what has been fetched is "
    "kept for the next attempt";

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT)
    throw HubError("no space is left for " + path.string() + ": " + kMakeRoom);
  if (error == EFBIG) {
    throw HubError(path.string() +
                   " would be larger than this process or its file system may have files: see "
                   "`ulimit -f`");
  }
  throw HubError("cannot " + what + " " + path.string() + ": " + std::strerror(error));
}

/// So that a name outlives a crash of the machine, too. Not every file system can.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::string size_text(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) / 1e9);
  if (bytes < 1'000'000'000)
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail("open", path_);
  size_ = static_cast<uint64_t>(status.st_size);
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PartialFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_);
    size_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void PartialFile::read(const std::function<void(std::string_view)>& piece) const {
  std::vector<char> buffer(kPieceBytes);
  for (uint64_t at = 0; at < size_;) {
    const ssize_t got = ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("read", path_);
    piece({buffer.data(), static_cast<size_t>(got)});
    at += static_cast<uint64_t>(got);
  }
}

void PartialFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) fail("empty", path_);
  size_ = 0;
}

void PartialFile::move_to(const std::filesystem::path& place) {
  if (::fsync(descriptor_) != 0) fail("write", path_);
  if (::rename(path_.c_str(), place.c_str()) != 0) fail("rename", path_);
  sync_folder(place.parent_path());
}

void require_disk_space(const std::filesystem::path& folder, uint64_t bytes) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return;  // it does not say
  const uint64_t available = static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  if (bytes > available) {
    throw HubError("the disk of " + folder.string() + " has " + size_text(available) +
                   " free, and this model needs " + size_text(bytes) + " more: " + kMakeRoom);
  }
}

}  // namespace espalier::hub
