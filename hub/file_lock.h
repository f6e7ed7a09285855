// A lock file as Hugging Face's tools take it: flock() on a file that stays. Two processes that
// fetch the same file take turns, whichever program they are.
//
// Thread contract: one thread.
#pragma once

#include <filesystem>

#include "hub/fetch_events.h"

namespace espalier::hub {

class FileLock {
 public:
  /// Waits as long as another process has it; `what` is what it fetches, for the warning that says
  /// so. A file system without locks is warned of, and used without. Throws HubError if the file
  /// cannot be made, Cancelled.
  FileLock(const std::filesystem::path& file, const std::string& what, const FetchEvents& events);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace espalier::hub
