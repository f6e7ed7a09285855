// What a snapshot in the cache has, without asking anybody.
//
// Thread contract: none needed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace espalier::hub {

struct SnapshotCheck {
  std::filesystem::path model;       // the snapshot's folder, or the GGUF file in it
  std::vector<std::string> missing;  // files that the server cannot do without; none: complete
};

/// `gguf` as in ModelReference. Throws HubError if not exactly one GGUF file is meant, and for
/// files that name others and cannot be read.
SnapshotCheck check_snapshot(const std::filesystem::path& snapshot, const std::string& gguf,
                             const std::string& repository);

/// The text of a small file; throws HubError if it cannot be read, or is no small one.
std::string read_small_file(const std::filesystem::path& file);

}  // namespace espalier::hub
