// The options of every command as a CLI11 application over an Options object.
//
// Thread contract: one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/commands/options.h"

namespace espalier::commands {

/// "max-batch-tokens" → "ESPALIER_MAX_BATCH_TOKENS".
std::string environment_name(const std::string& option);

class OptionTable {
 public:
  using Table = std::map<std::string, CLI::Option*>;

  /// Keeps a reference to `options`. `version_text` is asked only for --version.
  OptionTable(Options& options, const std::function<std::string()>& version_text);

  CLI::App& app() { return app_; }
  /// The chosen subcommand; nullptr if none was named.
  CLI::App* chosen() const;
  Command command() const { return commands_.at(chosen()); }
  /// Options of the chosen subcommand, by name.
  Table& table() { return tables_.at(chosen()); }
  /// Names of the options of all commands but `config`.
  std::set<std::string> names() const;

 private:
  CLI::App* bare_subcommand(Command command, const std::string& name,
                            const std::string& description);
  CLI::App* subcommand(Command command, const std::string& name, const std::string& description);
  template <typename T>
  CLI::Option* option(CLI::App* sub, const std::string& name, T& value,
                      const std::string& description);
  void list(CLI::App* sub, const std::string& name, std::vector<std::string>& values,
            const std::string& description);
  void per_model(CLI::App* sub, const std::string& name, std::vector<std::string>& values,
                 const std::string& description);
  void flag(CLI::App* sub, const std::string& name, bool& value, const std::string& description);
  void add_compute_options(CLI::App* sub);
  void add_engine_options(CLI::App* sub);
  void add_head_options(CLI::App* sub);
  void add_serve();
  void add_transport_options(CLI::App* sub);
  void add_overload_options(CLI::App* sub);
  void add_embed();
  void add_rerank();
  void add_tokenize();
  void add_inspect();
  void add_bench();
  void add_download();
  void add_models();
  void add_health();
  void add_listening_options(CLI::App* sub);

  Options& o_;
  CLI::App app_{
      "Espalier turns text into embeddings and rerank scores with Qwen3-style models on CPUs,\n"
      "computing every shared prefix of a batch once.",
      "espalier"};
  std::map<const CLI::App*, Command> commands_;
  std::map<const CLI::App*, Table> tables_;
};

}  // namespace espalier::commands
