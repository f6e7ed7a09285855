#include "server/commands/version.h"

#include "engine/gemm.h"
#include "espalier_version.h"

namespace espalier::commands {

std::string version_text() {
  return "espalier " ESPALIER_VERSION " (commit " ESPALIER_COMMIT ")\nkernels: " +
         engine::make_openblas_gemm()->description();
}

}  // namespace espalier::commands
