#include "server/commands/gguf_location.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "models/gguf_config.h"

namespace espalier::commands {

std::filesystem::path folder_or_gguf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;  // a folder that cannot be listed is reported when it is read
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") return folder;
    if (models::is_gguf(entry->path())) found.push_back(entry->path());
  }
  if (found.empty()) return folder;
  if (found.size() == 1) return found.front();
  std::ranges::sort(found);
  std::string names;
  for (const auto& file : found) names += (names.empty() ? "" : ", ") + file.filename().string();
  throw std::runtime_error("--model " + folder.string() + " has several GGUF files: " + names +
                           "; name one of them");
}

}  // namespace espalier::commands
