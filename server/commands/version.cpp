#include "server/commands/version.h"

#include "espalier_version.h"
#include "server/commands/gemm_choice.h"

namespace espalier::commands {

std::string version_text() {
  return "espalier " ESPALIER_VERSION " (commit " ESPALIER_COMMIT ")\nkernels: " +
         choose_gemm("auto", number_format("auto"))->description();
}

std::string version_number() { return ESPALIER_VERSION; }

std::string commit() { return ESPALIER_COMMIT; }

}  // namespace espalier::commands
