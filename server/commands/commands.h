// The subcommands, one file each. Each returns the process's exit code and throws
// std::runtime_error (caught in main) for what keeps it from starting.
#pragma once

#include "server/commands/options.h"

namespace espalier::commands {

int serve(const Options& options);
int embed(const Options& options);
int rerank(const Options& options);
int tokenize(const Options& options);
int inspect(const Options& options);
int bench(const Options& options);
int download(const Options& options);
int list_models(const Options& options);
int health(const Options& options);

}  // namespace espalier::commands
