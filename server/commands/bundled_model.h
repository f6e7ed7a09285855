// Where the model that ships with Espalier lies.
#pragma once

#include <filesystem>

namespace espalier::commands {

/// The folder of espalier-mini, found from the executable's own place, never from the working
/// directory: <prefix>/share/espalier/models when installed, the source tree's models/ when run
/// from a build in it. Throws std::runtime_error saying where it looked.
std::filesystem::path find_bundled_model();

}  // namespace espalier::commands
