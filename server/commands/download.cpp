#include <filesystem>
#include <iostream>

#include "hub/hub_error.h"
#include "server/commands/commands.h"
#include "server/commands/logging.h"
#include "server/commands/model_files.h"

namespace espalier::commands {

int download(const Options& options) {
  constexpr int kInterrupted = 130;  // as shells say it of SIGINT
  Options wanted = options;
  if (!options.downloads.empty()) wanted.models = options.downloads;
  try {
    for (const ModelReference& reference : model_references(wanted))
      std::cout << find_model(reference).folder.string() << std::endl;
  } catch (const hub::Cancelled& stopped) {
    report_failure(stopped.what());
    return kInterrupted;
  }
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
