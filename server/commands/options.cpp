#include "server/commands/options.h"

#include <string_view>
#include <utility>

#include "server/commands/option_table.h"
#include "server/commands/options_file.h"

namespace espalier::commands {
namespace {

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

void take(CLI::Option& option, const std::vector<std::string>& values, const std::string& source) {
  if (option.count() > 0 || values.empty()) return;
  try {
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    throw UsageError(source + " is set to '" + joined(values) +
                     "', which is refused: " + error.what());
  }
}

/// Kubernetes gives every container variables of the Services around it: of one called espalier
/// ESPALIER_PORT=tcp://10.0.0.7:8080, which nobody meant for us.
bool is_service_link(const std::string& name, std::string_view value) {
  return name.ends_with("port") && (value.starts_with("tcp://") || value.starts_with("udp://"));
}

void take_environment(const std::string& name, CLI::Option& option,
                      const Environment& environment) {
  const std::string variable = environment_name(name);
  const char* value = environment(variable.c_str());
  if (value == nullptr || *value == '\0' || is_service_link(name, value)) return;
  take(option, {value}, "environment variable " + variable);
}

/// Fills the chosen command's options that no flag has set from `environment`, then from the file,
/// whose keys may be those of all commands: one file may serve them all.
void merge(OptionTable& options, const std::string& file, const Environment& environment) {
  auto& table = options.table();
  take_environment("config", *table.at("config"), environment);
  std::map<std::string, std::vector<std::string>> file_values;
  if (!file.empty()) file_values = read_options_file(file, options.names());
  for (auto& [name, option] : table) {
    if (name != "config") take_environment(name, *option, environment);
    if (const auto value = file_values.find(name); value != file_values.end())
      take(*option, value->second, file + ": `" + name + "`");
  }
}

/// What is said of arguments that no option takes. Their values are left out: behind a misspelt
/// --api-key that is the key.
std::string unknown_arguments(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  const auto arguments = app.remaining(true);
  std::string options;
  for (const auto& argument : arguments) {
    if (argument.starts_with('-'))
      options += (options.empty() ? "" : ", ") + argument.substr(0, argument.find('='));
  }
  if (options.empty() && subcommands.empty() && !arguments.empty())
    return "there is no command " + arguments.front() + "\nRun `espalier --help` for all.\n";
  const std::string command = subcommands.empty() ? "" : " " + subcommands.front()->get_name();
  return (options.empty() ? "there are arguments that belong to no option"
                          : "there is no option " + options) +
         "\nRun `espalier" + command + " --help` for the options.\n";
}

CommandLine stop(int code, std::string text) {
  CommandLine result;
  result.exit_code = code;
  result.text = std::move(text);
  return result;
}

/// What ends a command whose options are wrong. Container engines know only 0 and 1 of health.
int usage_exit_code(const OptionTable& table) {
  return table.chosen() != nullptr && table.command() == Command::kHealth ? 1 : 2;
}

/// What no single option can check.
void check_together(Command command, const Options& options) {
  if (command == Command::kRerank && options.query.empty()) {
    throw UsageError("--query is required: the text that the documents are scored against");
  }
  if (command != Command::kServe && command != Command::kDownload && options.models.size() > 1) {
    throw UsageError(
        "--model was given several times; only serve and download take several models");
  }
  if (command == Command::kDownload && options.downloads.empty() && options.models.empty()) {
    throw UsageError("name a model to fetch: espalier download Qwen/Qwen3-Embedding-0.6B");
  }
  if (command == Command::kServe && options.share_across_keys && options.api_key_file.empty() &&
      options.api_keys.empty() && options.admin_keys.empty()) {
    throw UsageError(
        "--share-across-keys needs --api-key-file or --api-key: without keys all requests share");
  }
  if (command == Command::kHealth) return;  // what goes wrong there, `serve` says
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    throw UsageError("--tls-cert and --tls-key belong together: give both, or neither");
  }
  if (options.admin_port == 0 && !options.admin_host.empty()) {
    throw UsageError("--admin-host needs --admin-port: without it there is no such port");
  }
  if (options.admin_port != 0 && options.admin_port == options.port) {
    throw UsageError("--admin-port and --port must differ");
  }
  if (!options.prompt_name.empty() && !options.instruction.empty()) {
    throw UsageError("--prompt-name and --instruction exclude each other; give one");
  }
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const Environment& environment,
                               const std::function<std::string()>& version_text) {
  CommandLine result;
  OptionTable table(result.options, version_text);
  try {
    // CLI11 takes a vector from its back.
    table.app().parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (table.chosen() == nullptr) {
      return stop(arguments.empty() ? 2 : 0, table.app().help());
    }
    merge(table, result.options.config, environment);
    result.command = table.command();
    check_together(result.command, result.options);
    return result;
  } catch (const CLI::CallForVersion& call) {
    return stop(0, std::string(call.what()) + "\n");
  } catch (const CLI::CallForHelp&) {
    const CLI::App* chosen = table.chosen();
    return stop(0, chosen != nullptr ? chosen->help("espalier") : table.app().help());
  } catch (const CLI::ExtrasError&) {
    return stop(usage_exit_code(table), "espalier: " + unknown_arguments(table.app()));
  } catch (const CLI::Error& error) {
    const CLI::App* chosen = table.chosen();
    const std::string command = chosen != nullptr ? " " + chosen->get_name() : "";
    return stop(usage_exit_code(table), "espalier: " + std::string(error.what()) +
                                            "\nRun `espalier" + command +
                                            " --help` for the options.\n");
  } catch (const UsageError& error) {
    return stop(usage_exit_code(table), "espalier: " + std::string(error.what()) + "\n");
  }
}

}  // namespace espalier::commands
