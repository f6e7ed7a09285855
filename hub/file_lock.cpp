#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};
constexpr mode_t kMode = 0666;  // less the umask: caches may be shared by a group

/// Some tools remove the file when they let go of it; a lock on a removed one locks out nobody.
bool is_still_at(int descriptor, const std::filesystem::path& file) {
  struct stat held {
  }, found{};
  return ::fstat(descriptor, &held) == 0 && ::stat(file.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::string& what,
                   const FetchEvents& events) {
  for (bool told = false;;) {
    if (descriptor_ < 0) descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
    if (descriptor_ < 0)
      throw HubError("cannot open the lock file " + file.string() + ": " + std::strerror(errno));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (is_still_at(descriptor_, file)) return;
      ::close(descriptor_);
      descriptor_ = -1;
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      events.warning("the file system of " + file.string() + " has no locks (" +
                     std::strerror(errno) + "): let no other process fetch this model now");
      return;
    }
    if (!told) events.warning("another process is fetching " + what + "; waiting for it");
    told = true;
    if (events.cancelled()) {
      ::close(descriptor_);
      throw Cancelled();
    }
    std::this_thread::sleep_for(kPeriod);
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace espalier::hub
