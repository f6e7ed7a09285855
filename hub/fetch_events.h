// What fetching tells its caller, and asks it.
//
// Thread contract: called on the thread that fetches, up to some thousand times a second.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace espalier::hub {

/// How far one file has come.
struct FileProgress {
  std::string file;      // its path in the repository
  uint64_t done = 0;     // bytes
  uint64_t resumed = 0;  // of them from an earlier attempt
  uint64_t total = 0;
  bool complete = false;  // checked and in place
};

/// None of them may be empty.
struct FetchEvents {
  std::function<void(const FileProgress&)> progress = [](const FileProgress&) {};
  /// Something that its reader should know of: an old model is used, a connection is tried again.
  std::function<void(const std::string&)> warning = [](const std::string&) {};
  /// Asked several times a second; true ends all with Cancelled.
  std::function<bool()> cancelled = [] { return false; };
};

}  // namespace espalier::hub
