// What `espalier --version` prints.
#pragma once

#include <string>

namespace espalier::commands {

/// "espalier 0.1.0 (commit …)" and, on a second line, the kernels that this CPU will use.
std::string version_text();

/// "0.1.0".
std::string version_number();
/// The first digits of the commit that was built, or "unknown".
std::string commit();

}  // namespace espalier::commands
