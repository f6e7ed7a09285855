#include "server/commands/bundled_model.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace espalier::commands {

namespace fs = std::filesystem;

fs::path find_bundled_model() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<fs::path> places = {folder.parent_path() / "share/espalier/models/espalier-mini"};
  // build/<preset>/espalier and deeper builds inside the source tree.
  fs::path ancestor = folder;
  for (int levels = 0; levels < 4 && ancestor.has_relative_path(); ++levels) {
    ancestor = ancestor.parent_path();
    places.push_back(ancestor / "models/espalier-mini");
  }
  std::string looked;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::exists(place / "config.json", ignored)) return place;
    looked += "\n  " + place.string();
  }
  throw std::runtime_error(
      "the bundled model is not installed beside this binary; name a model folder with "
      "--model. Looked in:" +
      looked);
}

}  // namespace espalier::commands
