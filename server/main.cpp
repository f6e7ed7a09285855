#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "server/commands/commands.h"
#include "server/commands/logging.h"
#include "server/commands/options.h"
#include "server/commands/version.h"

namespace {

int run(espalier::commands::Command command, const espalier::commands::Options& options) {
  using espalier::commands::Command;
  switch (command) {
    case Command::kServe:
      return espalier::commands::serve(options);
    case Command::kEmbed:
      return espalier::commands::embed(options);
    case Command::kRerank:
      return espalier::commands::rerank(options);
    case Command::kTokenize:
      return espalier::commands::tokenize(options);
    case Command::kInspect:
      return espalier::commands::inspect(options);
    case Command::kBench:
      return espalier::commands::bench(options);
    case Command::kDownload:
      return espalier::commands::download(options);
    case Command::kModels:
      return espalier::commands::list_models(options);
    case Command::kHealth:
      return espalier::commands::health(options);
  }
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto line = espalier::commands::parse_command_line(
        std::vector<std::string>(argv + 1, argv + argc),
        [](const char* name) -> const char* { return std::getenv(name); },
        espalier::commands::version_text);
    if (line.exit_code) {
      (*line.exit_code == 0 ? std::cout : std::cerr) << line.text;
      return *line.exit_code;
    }
    espalier::commands::start_logging(line.options.log_level,
                                      espalier::commands::log_format(line.options.log_format));
    return run(line.command, line.options);
  } catch (const std::exception& error) {
    espalier::commands::report_failure(error.what());
    return EXIT_FAILURE;
  }
}
